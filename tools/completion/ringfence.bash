# SPDX-License-Identifier: BSD-2-Clause
# bash completion of ringfence(1). Needs the package bash-completion.

# Names only: what else a project's files are called, bash would expand, and run.
_ringfence_name()
{
	[[ $1 =~ ^[[:alnum:]_][[:alnum:]._-]*$ ]] && printf '%s\n' "$1"
}

_ringfence_policies()
{
	local folder file
	for folder in .ringfence ~/.config/ringfence /etc/ringfence \
		{/usr/local,/usr}/share/ringfence/profiles; do
		for file in "$folder"/*.yaml; do
			file=${file##*/}
			_ringfence_name "${file%.yaml}"
		done
	done
}

# Those that run, which everybody sees in their cgroups.
_ringfence_live()
{
	local folder
	for folder in /sys/fs/cgroup{,/unified}/ringfence/*/; do
		folder=${folder%/}
		_ringfence_name "${folder##*/}"
	done
}

# And those that have ended, for who may look at the logs.
_ringfence_sessions()
{
	local file
	_ringfence_live
	for file in /var/log/ringfence/*.jsonl; do
		file=${file##*/}
		_ringfence_name "${file%.jsonl}"
	done
}

_ringfence()
{
	local cur prev words cword command i options=--help
	_init_completion || return
	command=${words[1]}

	if ((cword == 1)); then
		mapfile -t COMPREPLY < <(compgen -W \
			'run ps events reload status check explain doctor help version --help --version' -- "$cur")
		return
	fi
	case $command in
	run) options='--policy --audit --user --var --events --keep --fail-on-deny --quiet --verbose --json --help' ;;
	events) options='--follow --session --verdict --op --path --json --help' ;;
	reload) options='--audit --var --verbose --json --help' ;;
	check) options='--json --print --user --var --help' ;;
	explain) options='--policy --session --json --user --var --help' ;;
	doctor) options='--no-probes --json --help' ;;
	ps | status | version) options='--json --help' ;;
	help) options='run ps events reload status check explain doctor version --help' ;;
	esac

	if [[ $command == run ]]; then
		# Behind the options stands another command with a completion of its own.
		for ((i = 2; i < cword; i++)); do
			case ${words[i]} in
			--)	_command_offset $((i + 1)); return ;;
			--policy | --user | --var | --events) ((i++)) ;;
			-*)	;;
			*)	_command_offset "$i"; return ;;
			esac
		done
	fi
	case $command$prev in
	run--policy | explain--policy) mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_policies)" -- "$cur"; compgen -f -- "$cur") ;;
	run--user | check--user | explain--user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
	events--session) mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_sessions | sort -u)" -- "$cur") ;;
	explain--session) mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_live)" -- "$cur") ;;
	run--events | events--path) _filedir ;;
	run--var | reload--var | check--var | explain--var) ;;
	check--print) mapfile -t COMPREPLY < <(compgen -W 'rules patterns dfa net image' -- "$cur") ;;
	events--verdict) mapfile -t COMPREPLY < <(compgen -W 'deny would-deny allow would-allow lost' -- "$cur") ;;
	events--op) mapfile -t COMPREPLY < <(compgen -W 'open exec fork ioctl socket connect send mount lost' -- "$cur") ;;
	*)
		if [[ $cur == -* || $command == help ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		elif [[ $command == check ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_policies)" -- "$cur"; compgen -f -- "$cur")
		elif [[ $command == explain ]]; then
			mapfile -t COMPREPLY < <(compgen -W 'read modify create delete attr exec write all connect' -- "$cur"; compgen -f -- "$cur")
		elif [[ $command == events ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_sessions | sort -u)" -- "$cur")
		elif [[ $command == reload ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_ringfence_live) $(_ringfence_policies)" -- "$cur"; compgen -f -- "$cur")
		elif [[ $command == run ]]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		fi
		;;
	esac
}
complete -F _ringfence ringfence
