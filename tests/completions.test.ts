/** The scripts of `queue:completions`, in the shells that they are for. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Queue } from "@x/queue";
import { inFolder } from "./folder.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const isDeno = process.versions.deno !== undefined;

function without(program: string): string | false {
  return spawnSync(program, ["--version"]).error === undefined ? false : `no ${program} on this machine`;
}

const noBash = without("bash");
const noZsh = without("zsh");
const noFish = without("fish");
const noTerminal = noBash || without("script");

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder with the program `queue` on the path, and a database of three failed jobs. */
function inProject(use: (place: Place) => Promise<void>): Promise<void> {
  return inFolder(async (folder) => {
    const place = new Place(folder);
    await place.fill();
    await use(place);
  });
}

/** The same, but what a script asks for is answered at once, and by worse names than the program itself gives. */
function withAnswers(shell: string, use: (place: Place) => Promise<void>): Promise<void> {
  return inFolder(async (folder) => {
    const place = new Place(folder);
    await place.script(shell);
    const strange = "'$(touch${IFS}pwned)' '`touch${IFS}pwned`' ';touch${IFS}pwned'";
    place.program(
      "queue",
      `printf '%s\\n' "answers to $1 $2" >> asked
      case "$2" in
        queues) printf '%s\\n' default out-bound ${strange} ;;
        names) printf '%s\\n' mail ${strange} ;;
        failed) printf '%s\\t%s\\n' 3 "it's" 2 'mail: $(touch pwned) upstream' 1 'x' ;;
      esac`,
    );
    await use(place);
  });
}

class Place {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    const before = isDeno ? ["run", "-A", "--no-check"] : [];
    const words = [process.execPath, ...before, CLI].map((word) => `'${word}'`);
    this.program("queue", `exec ${words.join(" ")} "$@"`);
  }

  /** A program of the shell. */
  program(name: string, command: string): void {
    const bin = join(this.folder, "bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, name), `#!/bin/sh\n${command}\n`);
    chmodSync(join(bin, name), 0o755);
  }

  async fill(): Promise<void> {
    const broken = () => {
      throw new Error("upstream 503");
    };
    const database = join(this.folder, "storage", "database.sqlite");
    const jobs = { mail: broken, "it's $(touch pwned)": broken };
    const queue = new Queue({ database, tries: 1, env: {}, log: { warn() {}, error() {} }, jobs });
    await queue.dispatchMany([
      ["mail", 1, { queue: "out-bound" }],
      ["mail", 2, { queue: "out-bound" }],
      ["it's $(touch pwned)", 3],
    ]);
    await queue.work({ stopWhenEmpty: true });
    await queue.dispatch("mail", 4, { queue: "$(touch${IFS}pwned)" });
    await queue.close();
  }

  run(command: string, args: readonly string[], input?: string): Promise<Ended> {
    const env: Record<string, string> = { NODE_NO_WARNINGS: "1", TERM: "xterm" };
    for (const name of ["HOME", "DENO_DIR", "TMPDIR"]) {
      if (process.env[name] !== undefined) env[name] = process.env[name]!;
    }
    env.PATH = `${join(this.folder, "bin")}:${process.env.PATH}`;
    const child = spawn(command, args, { cwd: this.folder, env, stdio: "pipe" });
    let stdout = "", stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => stdout += text);
    child.stderr.setEncoding("utf8").on("data", (text: string) => stderr += text);
    child.stdin.on("error", () => {}); // it may end before it has read all
    child.stdin.end(input);
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (status) => resolve({ status, stdout, stderr }));
    });
  }

  /** Writes the script of a shell into a file of that name. */
  async script(shell: string, program = "queue"): Promise<void> {
    const { status, stdout, stderr } = await this.run("queue", [
      "queue:completions",
      shell,
      `--program=${program}`,
    ]);
    assert.deepEqual([status, stderr], [0, ""]);
    writeFileSync(join(this.folder, shell), stdout);
  }

  /** What a shell's program prints for each line, by the line. */
  async answers(shell: string, args: readonly string[], program: string): Promise<Map<string, string[]>> {
    writeFileSync(join(this.folder, "answers"), program);
    const { status, stdout, stderr } = await this.run(shell, [...args, "answers"]);
    assert.deepEqual([status, stderr], [0, ""], stdout);
    assert.equal(existsSync(join(this.folder, "pwned")), false, "a name from the store was run");
    return new Map(
      stdout.split("\u0001").slice(1).map((part) => {
        const [line, ...words] = part.split("\n");
        return [line, words.filter((word) => word !== "").sort()];
      }),
    );
  }
}

/** Names that a shell must not run. */
const STRANGE = ["$(touch${IFS}pwned)", ";touch${IFS}pwned", "`touch${IFS}pwned`"];

const SHELLS = ["bash", "fish", "zsh"];
const OPTIONS = ["--after", "--database", "--error", "--help", "--json", "--limit", "--name", "--newer-than"];

describe("the completions of bash", { skip: noBash }, () => {
  /** Calls the function as readline does, for each line, with these separators in place of bash's own. */
  const bash = (lines: readonly string[], breaks = "$COMP_WORDBREAKS"): string =>
    `set -u; source ./bash; COMP_WORDBREAKS="${breaks}"
      for COMP_LINE in ${lines.map((line) => `'${line}'`).join(" ")}; do
        COMP_POINT=\${#COMP_LINE}
        _queue
        printf '\\1%s\\n' "$COMP_LINE"
        printf '%s\\n' \${COMPREPLY[@]+"\${COMPREPLY[@]}"}
      done`;

  it("complete commands, options and what options take", () =>
    withAnswers("bash", async (place) => {
      const expected: [line: string, words: string[]][] = [
        ["queue queue:re", ["restart", "resume", "retry"]],
        ["queue queue:prune", ["prune-failed"]],
        ["queue queue:failed --after 7 --n", ["--name", "--newer-than"]],
        ["queue queue:retry --queue ", [...STRANGE, "default", "out-bound"].sort()],
        ["queue queue:retry --queue=out", ["out-bound"]],
        ["queue queue:retry --queue=x", []],
        ["queue queue:retry --name ", [...STRANGE, "mail"].sort()],
        ["queue queue:forget ", ["1", "2", "3"]],
        ["queue queue:forget 1 --dry-run ", ["1", "2", "3"]],
        ["queue queue:completions ", SHELLS],
        ["queue queue:failed --database bi", ["bin"]],
        ["queue queue:failed --database=bi", ["bin"]],
        ["queue queue:work --max-time ", []],
        ["queue queue:nonsense ", []],
        ["queue --ver", ["--version"]],
      ];
      const lines = expected.map(([line]) => line);
      const answers = await place.answers("bash", [], bash(lines));
      assert.deepEqual(answers, new Map(expected));
    }));

  it("answer whole words where readline does not split them", () =>
    withAnswers("bash", async (place) => {
      const lines = ["queue queue:re", "queue queue:retry --queue=o", "queue queue:failed --database=bi"];
      const answers = await place.answers("bash", [], bash(lines, " "));
      assert.deepEqual([...answers.values()], [
        ["queue:restart", "queue:resume", "queue:retry"],
        ["--queue=out-bound"],
        ["--database=bin"],
      ]);
    }));

  it("complete what is typed on a terminal, though readline splits words at colons", {
    skip: noTerminal,
    timeout: 300_000,
  }, () =>
    inProject(async (place) => {
      await place.script("bash", "app");
      place.program("app", `printf 'ran <%s>\\n' "$@"`);
      // Each line is typed, with a tab where one is pressed; what was made of it is printed by `app`.
      const typed = ["app queue:prune\t--hours 5", "app queue:status --js\t", "app queue:comp\tzs\t"];
      writeFileSync(
        join(place.folder, "rc"),
        "PS1=; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source ./bash\n",
      );
      const keys = [...typed, "exit"].map((line) => `${line}\n`).join("");
      const { stdout } = await place.run("script", [
        "-qec",
        "bash --noprofile --rcfile ./rc -i",
        "/dev/null",
      ], keys);
      const ran = [...stdout.matchAll(/^ran <(.*)>\r?$/gm)].map(([, word]) => word);
      assert.deepEqual(
        ran,
        ["queue:prune-failed", "--hours", "5", "queue:status", "--json", "queue:completions", "zsh"],
        stdout,
      );
    }));

  it("know an alias by which the program is called", () =>
    inProject(async (place) => {
      await place.script("bash", "q");
      const lines = ["q queue:pause --queue ", "q queue:flu"];
      const program = `shopt -s expand_aliases; alias q='queue'; ${
        bash(lines).replaceAll("\n        _queue\n", "\n        _q\n")
      }`;
      const answers = await place.answers("bash", [], program);
      assert.deepEqual([...answers.values()], [["default", "out-bound"], ["flush"]]);
    }));
});

describe("the completions of zsh", { skip: noZsh }, () => {
  /** Types each line into a shell on a terminal of its own, and prints what that offers. */
  const zsh = (lines: readonly string[]): string => `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell 'PS1=; autoload -Uz compinit; compinit -C -D; source ./zsh
      compadd() { local -a __seen; builtin compadd -A __seen "$@"; print -rl -- "<"\${^__seen}">" }
      zle -C offer complete-word _generic
      try() { zle -I; zle offer; zle kill-whole-line; print END }
      zle -N try; bindkey "^X" try; print READY'
    while zpty -r shell word; do [[ $word == READY* ]] && break; done
    for line in ${lines.map((line) => `'${line}'`).join(" ")}; do
      zpty -n -w shell "$line"$'\\x18'
      print -r -- $'\\1'"$line"
      while zpty -r shell word; do
        word="\${word%%$'\\r'*}"
        [[ $word == *END* ]] && break
        [[ $word == *\\<*\\> ]] && print -r -- "\${(Q)\${\${word##*\\<}%\\>}}"
      done
    done`;

  it(
    "complete commands, options and what options take",
    { timeout: 300_000 },
    () =>
      withAnswers("zsh", async (place) => {
        const expected: [line: string, words: string[]][] = [
          ["queue queue:re", ["queue:restart", "queue:resume", "queue:retry"]],
          ["queue queue:failed --", [...OPTIONS, "--older-than", "--queue", "--reverse"]],
          ["queue queue:retry --queue ", [...STRANGE, "default", "out-bound"].sort()],
          ["queue queue:retry --queue=", [...STRANGE, "default", "out-bound"].sort()],
          ["queue queue:forget ", ["1", "2", "3"]],
          ["queue queue:completions ", SHELLS],
        ];
        const lines = expected.map(([line]) => line);
        const answers = await place.answers("zsh", ["-f"], zsh(lines));
        assert.deepEqual(answers, new Map(expected));
      }),
  );
});

describe("the completions of fish", { skip: noFish }, () => {
  const fish = (lines: readonly string[]): string =>
    `source ./fish
      for line in ${lines.map((line) => `'${line}'`).join(" ")}
        printf '\\1%s\\n' $line
        complete -C $line | string replace -r '\\t.*' ''
      end
      true`;

  it("complete commands, options and what options take", () =>
    withAnswers("fish", async (place) => {
      const expected: [line: string, words: string[]][] = [
        ["queue queue:re", ["queue:restart", "queue:resume", "queue:retry"]],
        ["queue queue:failed --", [...OPTIONS, "--older-than", "--queue", "--reverse"]],
        ["queue queue:retry --queue ", [...STRANGE, "default", "out-bound"].sort()],
        ["queue queue:retry --queue=o", ["--queue=out-bound"]],
        ["queue queue:forget ", ["1", "2", "3"]],
        ["queue queue:completions ", SHELLS],
        ["queue queue:failed --database bi", ["bin/"]],
      ];
      const lines = expected.map(([line]) => line);
      const answers = await place.answers("fish", ["--no-config"], fish(lines));
      assert.deepEqual(answers, new Map(expected));
    }));
});

it("what a shell asks for is what the store has, without what a shell might run", () =>
  inProject(async (place) => {
    const ask = async (what: string): Promise<string[]> => {
      const { status, stdout, stderr } = await place.run("queue", ["queue:complete", what]);
      assert.deepEqual([status, stderr], [0, ""]);
      return stdout.trimEnd().split("\n");
    };
    assert.deepEqual(await ask("queues"), ["default", "out-bound"]);
    assert.deepEqual(await ask("names"), ["mail"]);
    assert.deepEqual(await ask("failed"), [
      "3\tit's $(touch pwned): upstream 503",
      "2\tmail: upstream 503",
      "1\tmail: upstream 503",
    ]);
  }));

it("a program whose name no shell takes as it is, and a shell that there is not, are refused", () =>
  inProject(async (place) => {
    const wrong = await place.run("queue", ["queue:completions", "bash", "--program=a b; rm"]);
    assert.deepEqual([wrong.status, wrong.stdout], [2, ""]);
    assert.match(wrong.stderr, /--program.*a name of letters, digits/);
    const none = await place.run("queue", ["queue:completions", "tcsh"]);
    assert.deepEqual([none.status, none.stdout], [2, ""]);
    assert.match(none.stderr, /bash, zsh, fish/);
  }));
