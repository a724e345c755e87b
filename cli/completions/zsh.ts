import type { Completed } from "../completions.ts";
import { identifier, lookups, quote } from "./shell.ts";

/** The script for zsh, with what each command and option does beside it. */
export function zshScript(program: string, commands: readonly Completed[]): string {
  const self = `_${identifier(program)}`;
  const described = (entries: readonly (readonly [word: string, about: string])[]): string =>
    entries.map(([word, about]) => quote(`${word}\t${about}`)).join(" ");
  const all = described(commands.map(({ name, summary }) => [name, summary]));
  const print = ({ options }: Completed): string =>
    `print -rl -- ${described(options.map(({ long, description }) => [long, description]))}`;
  return `#compdef ${program}
# Completes ${program} in zsh. In ~/.zshrc, after compinit:
#   source <(${program} queue:completions zsh)

${lookups(self, commands, print)}

# Asks the program itself, by the word that it was called with.
${self}_ask() {
  if (( \${+aliases[$1]} )); then
    eval "$aliases[$1] queue:complete $2" 2>/dev/null </dev/null
  else
    command "$1" queue:complete "$2" 2>/dev/null </dev/null
  fi
}

# Offers lines of a word, a tab, and what it is about.
${self}_offer() {
  local line
  local -a found shown
  for line in "$@"; do
    found+=("\${line%%$'\\t'*}")
    if [[ $line == *$'\\t'?* ]]; then shown+=("\${line%%$'\\t'*}  -- \${line#*$'\\t'}"); else shown+=("$line"); fi
  done
  (( \${#found} )) && compadd -l -d shown -a found
}

${self}() {
  local command="" option="" kind="" word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [[ $word == queue:* ]]; then command="$word"; break; fi
  done
  if [[ -z $command ]]; then
    ${self}_offer ${all}
    return
  fi
  if [[ $PREFIX == --*=* ]]; then
    option="\${PREFIX%%=*}"
  elif [[ $words[CURRENT-1] == -* ]]; then
    option="$words[CURRENT-1]"
  fi
  kind="$(${self}_kind "$command" "$option")"
  if [[ -z $option || $kind == flag || -z $kind ]]; then
    kind="$(${self}_kind "$command" "")"
    [[ $PREFIX == -* ]] && kind=options
  elif [[ $PREFIX == --*=* ]]; then
    compset -P '*='
  fi
  case "$kind" in
    options) ${self}_offer "\${(@f)$(${self}_options "$command")}" ;;
    words\\ *) compadd -- \${=kind#words } ;;
    queues|names|failed) ${self}_offer "\${(@f)$(${self}_ask "$words[1]" "$kind")}" ;;
    files) _files ;;
  esac
}

compdef ${self} ${program}
`;
}
