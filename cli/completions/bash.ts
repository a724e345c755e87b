import type { Completed } from "../completions.ts";
import { identifier, lookups, quote } from "./shell.ts";

/**
 * The script for bash 3.2 or newer, without the package bash-completion. Readline splits words at `:` and `=`, which are
 * in every command's name, and in `--queue=mail`: so the line is split at spaces here, and what readline takes for
 * finished is taken off the answers.
 */
export function bashScript(program: string, commands: readonly Completed[]): string {
  const self = `_${identifier(program)}`;
  const print = ({ options }: Completed): string =>
    `printf '%s\\n' ${options.map(({ long }) => quote(long)).join(" ")}`;
  return `# Completes ${program} in bash. In ~/.bashrc:
#   source <(${program} queue:completions bash)

${lookups(self, commands, print)}

# Asks the program itself, by the word that it was called with.
${self}_ask() {
  if alias -- "$1" >/dev/null 2>&1; then
    eval "$1 queue:complete $2" 2>/dev/null </dev/null
  else
    command "$1" queue:complete "$2" 2>/dev/null </dev/null
  fi
}

${self}() {
  local IFS=$' \\t\\n'
  local line="\${COMP_LINE:0:COMP_POINT}" command="" option="" prefix="" kind="" word start
  local -a words candidates
  read -ra words <<<"$line"
  case "$line" in *[[:space:]]) words+=("") ;; esac
  local last=$((\${#words[@]} - 1))
  local current="\${words[last]}" typed
  for ((word = 1; word < last; word++)); do
    case "\${words[word]}" in queue:*) command="\${words[word]}"; break ;; esac
  done
  typed="$current"
  COMPREPLY=()
  candidates=()
  if [ -z "$command" ]; then
    candidates=(${commands.map(({ name }) => name).join(" ")} --help --version)
  else
    case "$current" in
      --*=*) option="\${current%%=*}" prefix="\${current%%=*}=" ;;
      *) case "\${words[last - 1]}" in -*) option="\${words[last - 1]}" ;; esac ;;
    esac
    kind="$(${self}_kind "$command" "$option")"
    if [ -z "$option" ] || [ "$kind" = flag ] || [ -z "$kind" ]; then
      prefix=""
      kind="$(${self}_kind "$command" "")"
      case "$current" in -*) kind=options ;; esac
    fi
    case "$kind" in
      options) candidates=($(${self}_options "$command")) ;;
      words\\ *) candidates=(\${kind#words }) ;;
      queues | names | failed)
        while IFS=$'\\t' read -r word _; do candidates+=("$word"); done < <(${self}_ask "\${words[0]}" "$kind") ;;
      files)
        typed="\${current#"$prefix"}"
        while IFS= read -r word; do candidates+=("$word"); done < <(compgen -f -- "$typed")
        compopt -o filenames 2>/dev/null ;;
    esac
    [ "$kind" = files ] && typed="$prefix$typed"
  fi
  # What readline has behind it already ends with the last of its own separators.
  start=""
  case "$COMP_WORDBREAKS" in *:*) case "$typed" in *:*) start="\${typed%"\${typed##*:}"}" ;; esac ;; esac
  case "$COMP_WORDBREAKS" in
    *=*) case "$typed" in *=*)
      word="\${typed%"\${typed##*=}"}"
      [ "\${#word}" -gt "\${#start}" ] && start="$word" ;;
    esac ;;
  esac
  for word in \${candidates[@]+"\${candidates[@]}"}; do
    word="$prefix$word"
    case "$word" in "$typed"*) COMPREPLY+=("\${word#"$start"}") ;; esac
  done
}

complete -F ${self} ${program}
`;
}
