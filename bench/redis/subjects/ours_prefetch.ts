/** This library on Redis with `prefetch: 100`, as an app with short jobs sets it. */
import type { Place, RedisSubject } from "../subject.ts";
import open from "./ours.ts";

export default function openAhead(place: Place): RedisSubject {
  return open(place, 100);
}
