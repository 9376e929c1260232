# sh.sh: as bash.sh, for where there is no bash. A plain shell cannot list its functions, arrays it
# has none, and what it calls a variable is text: that, exports, aliases, options, folder and umask
# are what the next one is given.

__scb_ready() {
	trap '__scb_leave "$?" 2>/dev/null' EXIT
	trap '' INT
	printf 'R %s|%s\0' '' "$__scb_gone" >"$__scb_say"
	__scb_gone=
}

__scb_begin() {
	[ "${2-}" != save ] || __scb_save
	trap 'exit 130' INT # a plain shell runs no EXIT trap when it is killed
	return "$1"
}

__scb_end() {
	trap '' INT
	printf 'D %d\0' "$1" >"$__scb_say"
}

# Names that the shell itself sets, or will not have set, are left out.
__scb_save() {
	__scb_pwd=$PWD
	{
		set | while IFS= read -r __scb_line; do
			case $__scb_line in
			PPID=* | PS4=* | __scb_line=*) ;;
			*) printf '%s\n' "$__scb_line" ;;
			esac
		done
		export -p
		umask | { read -r __scb_line && printf 'umask %s\n' "$__scb_line"; }
		alias | while IFS= read -r __scb_line; do
			printf 'alias %s\n' "${__scb_line#alias }"
		done
		printf 'cd -- "$__scb_pwd" || { __scb_gone=$__scb_pwd; cd .; }\n'
		case $- in *e*) printf 'set -e\n' ;; esac
		case $- in *u*) printf 'set -u\n' ;; esac
		case $- in *f*) printf 'set -f\n' ;; esac
		case $- in *x*) printf 'set -x\n' ;; esac
	} >|"$__scb_state"
}

__scb_leave() {
	__scb_status=$1
	printf 'S\0' >"$__scb_say"
	__scb_save
	printf 'L|\0' >"$__scb_say"
	exit "$__scb_status"
}

__scb_gone=
