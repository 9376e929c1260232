# bash.sh: what the shell kernel's bash reads before its first cell.
#
# __scb_say names the pipe by which a shell talks to kernel.c, in messages that end with NUL:
#   R VERSION|FOLDER  ready for a cell. FOLDER: the one it was in, if that is gone
#   D STATUS          the cell has ended
#   S                 the shell is about to end, and begins to write its state
#   L FDS|PIDS        it has done so. FDS: open descriptors, PIDS: background jobs; a new shell has
#                     neither
# __scb_state names a file that a shell writes at its end and the next one reads.
#
# kernel.c calls these functions in braces whose output is thrown away, so that neither `set -x` nor
# a DEBUG trap tells of them.

shopt -s expand_aliases

# The EXIT trap is the kernel's. What a cell sets as one is kept, and run when the shell ends.
trap() {
	builtin local action line
	builtin local -i n
	if [[ -n ${__scb_restoring-} ]]; then
		[[ $* == *__scb_leave* ]] || builtin trap "$@"
	elif ((BASH_SUBSHELL)) || [[ ${1-} == -l* ]]; then
		builtin trap "$@"
	elif (($# == 0)) || [[ $1 == -p* ]]; then
		[[ -z $__scb_on_exit || (${2+set} && " $* " != *\ @(EXIT|0)\ *) ]] ||
			builtin printf 'trap -- %s EXIT\n' "${__scb_on_exit@Q}"
		builtin trap "$@" | while IFS= builtin read -r line; do
			[[ $line == *__scb_leave* ]] || builtin printf '%s\n' "$line"
		done
	else
		[[ $1 != -- ]] || builtin shift
		action=-
		(($# == 1)) || {
			action=${1-}
			builtin shift
		}
		for ((n = $#; n > 0; n--)); do
			case $1 in
			EXIT | exit | SIGEXIT | 0)
				__scb_on_exit=$action
				[[ $action != - ]] || __scb_on_exit=
				;;
			*)
				builtin set -- "$@" "$1"
				;;
			esac
			builtin shift
		done
		(($# == 0)) || builtin trap -- "$action" "$@"
	fi
}

__scb_ready() {
	builtin trap '{ __scb_leave "$?" "$@" || :; } {__scb_err}>&2 2>/dev/null' EXIT
	builtin printf 'R %s|%s\0' "$BASH_VERSION" "${__scb_gone-}" >"$__scb_say"
	builtin unset __scb_gone __scb_restoring
}

# __scb_begin STATUS [save ARGUMENT…]: its own status is the `$?` that the cell finds. Verbose mode
# is off between cells, because it would show the lines that call this.
__scb_begin() {
	[[ ${2-} != save ]] || {
		__scb_arguments=("${@:3}")
		__scb_save || :
	}
	[[ -z ${__scb_verbose-} ]] || builtin set -v
	builtin return "$1"
}

__scb_end() {
	builtin printf 'D %d\0' "$1" >"$__scb_say"
	__scb_quiet
}

__scb_quiet() {
	__scb_verbose=
	[[ $- != *v* ]] || {
		__scb_verbose=1
		builtin set +v
	}
}

# All that a new shell can take over, as commands that make it again. extglob comes before functions
# that need it; aliases, traps and `set -e` last, so that they do nothing to the other lines. A shell
# that is about to end is not interrupted once more from here on.
__scb_save() {
	{
		builtin printf '__scb_traps() {\n:\n'
		builtin trap -p
		builtin printf '}\n'
		[[ -z ${1-} ]] || builtin trap '' INT
		builtin shopt -p
		builtin declare -f
		builtin declare -Fx
		builtin declare -p
		builtin printf 'builtin set --'
		builtin printf ' %q' "${__scb_arguments[@]}"
		builtin printf '\nbuiltin cd -- %q || { __scb_gone=$PWD; builtin cd -P .; }\n' "$PWD"
		builtin printf 'OLDPWD=%q\n' "${OLDPWD-}"
		builtin umask -p
		builtin alias -p
		builtin printf '__scb_traps\nbuiltin unset -f __scb_traps\n'
		builtin set +o
	} >|"$__scb_state"
}

# __scb_leave STATUS ARGUMENT…
__scb_leave() {
	builtin local status="$1" action="$__scb_on_exit" fd
	__scb_arguments=("${@:2}")
	__scb_on_exit=
	builtin printf 'S\0' >"$__scb_say"
	__scb_quiet
	__scb_save leaving
	{
		builtin printf 'L'
		for fd in 3 4 5 6 7 8 9; do
			[[ ! -e /proc/$$/fd/$fd ]] || builtin printf ' %d' "$fd"
		done
		builtin printf '|'
		builtin jobs -rp
		builtin printf '\0'
	} >"$__scb_say"
	builtin trap - INT
	if [[ -z $action ]]; then
		builtin return
	elif ((status)); then
		__scb_begin "$status" || builtin eval -- "$action" 2>&"$__scb_err"
	else
		builtin eval -- "$action" 2>&"$__scb_err"
	fi
}

__scb_on_exit=
__scb_arguments=()
__scb_restoring=1 # until __scb_ready: traps of the state are taken as they are, but for the EXIT trap
