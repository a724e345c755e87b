/** The jobs of compose.yaml: put your own here. */
export default {
  greet: (job: { data: { name: string } }) => console.log(`hello ${job.data.name}`),
};
