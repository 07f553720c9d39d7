# bash completion for shmcoord; written by `shmcoord completion`.
_shmcoord() {
  local current=${COMP_WORDS[COMP_CWORD]} command= word words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
      --) # The rest is the command of `run`.
        if [[ $i -eq $((COMP_CWORD - 1)) ]]; then
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
          mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return ;;
      --entries|--grace|--group|--holder|--interval|--mode|--names|--pid|--reason|--sessions|--trust|--ttl|-E|--conflict-exit-code|-l|--lock|-s|--segment|-w|--wait)
        i=$((i + 1))
        [[ $i -lt $COMP_CWORD ]] || return ;;
      -*) ;;
      *)
        case $command in
          '') command=$word ;;
          lock|segment) command="$command $word" ;;
        esac ;;
    esac
  done
  case $command in
    '') words='--help --version -s --segment --trust --json run lock inspect reap force-release segment completion' ;;
    lock) words='acquire release heartbeat renew status remove' ;;
    segment) words='create list info check remove' ;;
    'run') words='--help -l --lock -w --wait -n --no-wait --ttl --reason --holder --grace -E --conflict-exit-code --no-wait-tree' ;;
    'lock acquire') words='--help --holder --pid --ttl -w --wait -n --no-wait -E --conflict-exit-code --reason' ;;
    'lock release') words='--help --holder' ;;
    'lock heartbeat') words='--help --holder' ;;
    'lock renew') words='--help --holder --ttl' ;;
    'lock status') words='--help --holder' ;;
    'lock remove') words='--help --force' ;;
    'inspect') words='--help --watch --graph' ;;
    'reap') words='--help --once --interval --dry-run' ;;
    'force-release') words='--help --holder --reason' ;;
    'segment create') words='--help --mode --group --names --entries --sessions' ;;
    'segment list') words='--help' ;;
    'segment info') words='--help' ;;
    'segment check') words='--help' ;;
    'segment remove') words='--help --force' ;;
    'completion') words='--help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _shmcoord shmcoord
