# gpu of lxgpu: completion for bash. Written at each start; changes get lost.
_gpu() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" at offered=""
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${COMP_WORDS[at]} in
      --) COMPREPLY=(); compopt -o default 2>/dev/null; return ;; # what comes after is a command of its own
      -*) ;;
      *) [[ -n $command ]] || command=${COMP_WORDS[at]} ;;
    esac
  done
  COMPREPLY=()
  case $before in
    -o | --output) offered="text json" ;;
    --for | extend | keep) offered="30m 1h 2h 4h 8h 1d" ;;
    --gpus | reserve | release) offered="1 2 4 8" ;;
    --until | --at | --model | --class | --note | --reason) return ;;
    edit | cancel)
      offered=$(timeout 2 gpu -o json 2>/dev/null | sed -n 's/^ *"id": "\([a-z0-9]*\)",$/\1/p')
      ;;
  esac
  if [[ $word == -* || -z $offered ]]; then
    case $command in
      "") offered="status why release extend keep reserve edit cancel run web help --short --output --help" ;;
      status) offered="--output --help" ;;
      release) offered="--yes --help" ;;
      keep) offered="--reason --help" ;;
      reserve) offered="--for --until --at --weekly --model --class --note --help" ;;
      edit) offered="--gpus --for --until --at --note --help" ;;
      run) offered="--gpus --for --help --" ;;
      why | extend | cancel) offered="--help" ;;
      web) offered="--close --help" ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}
complete -F _gpu gpu
