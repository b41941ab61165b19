# SPDX-License-Identifier: BSD-2-Clause
# fish completion of ringfence(1).

function __ringfence_policies
    for file in .ringfence/*.yaml ~/.config/ringfence/*.yaml /etc/ringfence/*.yaml /usr/local/share/ringfence/profiles/*.yaml /usr/share/ringfence/profiles/*.yaml
        basename $file .yaml
    end
end

# Those that run, which everybody sees in their cgroups.
function __ringfence_live
    for folder in /sys/fs/cgroup/ringfence/*/ /sys/fs/cgroup/unified/ringfence/*/
        basename $folder
    end
end

# And those that have ended, for who may look at the logs.
function __ringfence_sessions
    __ringfence_live
    for file in /var/log/ringfence/*.jsonl
        basename $file .jsonl
    end
end

function __ringfence_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

complete -c ringfence -f
complete -c ringfence -n __fish_use_subcommand -l version -d 'print the version'
complete -c ringfence -n __fish_use_subcommand -a run -d 'run a command in a new confined session'
complete -c ringfence -n __fish_use_subcommand -a ps -d 'list the sessions'
complete -c ringfence -n __fish_use_subcommand -a events -d 'show what sessions did'
complete -c ringfence -n __fish_use_subcommand -a reload -d 'put another policy in force for a session'
complete -c ringfence -n __fish_use_subcommand -a status -d 'show the daemon, its programs, and what is not enforced yet'
complete -c ringfence -n __fish_use_subcommand -a check -d 'check a policy and say what is wrong with it'
complete -c ringfence -n __fish_use_subcommand -a explain -d 'say what a policy would decide, and by which rule'
complete -c ringfence -n __fish_use_subcommand -a doctor -d 'check this machine, and that sessions are confined on it'
complete -c ringfence -n __fish_use_subcommand -a help -d 'explain a command'
complete -c ringfence -n __fish_use_subcommand -a version -d 'print the version'

complete -c ringfence -l help -d 'show help'
complete -c ringfence -n '__ringfence_in ps events reload status check explain doctor version run' -l json -d 'print JSON'

complete -c ringfence -n '__ringfence_in run explain' -l policy -x -a '(__ringfence_policies) (__fish_complete_path)' -d policy
complete -c ringfence -n '__ringfence_in explain' -l session -x -a '(__ringfence_live)' -d session
complete -c ringfence -n '__ringfence_in run reload' -l audit -d 'only report'
complete -c ringfence -n '__ringfence_in run check explain' -l user -x -a '(__fish_complete_users)' -d user
complete -c ringfence -n '__ringfence_in run reload check explain' -l var -x -d 'set a variable, NAME=VALUE'
complete -c ringfence -n '__ringfence_in run' -l events -r -F -d 'append events to a file'
complete -c ringfence -n '__ringfence_in run' -l keep -d 'leave processes running'
complete -c ringfence -n '__ringfence_in run' -l fail-on-deny -d 'exit with 1 if anything was denied'
complete -c ringfence -n '__ringfence_in run' -l quiet -d 'no summary and no notes'
complete -c ringfence -n '__ringfence_in run reload' -l verbose -d 'say more'
complete -c ringfence -n '__ringfence_in run' -a '(__fish_complete_subcommand --fcs-skip=2)'

complete -c ringfence -n '__ringfence_in events' -l follow -s f -d 'go on with new events'
complete -c ringfence -n '__ringfence_in events' -l session -x -a '(__ringfence_sessions)' -d session
complete -c ringfence -n '__ringfence_in events' -l verdict -x -a 'deny would-deny allow would-allow lost' -d 'only this verdict'
complete -c ringfence -n '__ringfence_in events' -l op -x -a 'open exec fork ioctl socket connect send mount lost' -d 'only this operation'
complete -c ringfence -n '__ringfence_in events' -l path -r -F -d 'only matching paths'
complete -c ringfence -n '__ringfence_in events' -a '(__ringfence_sessions)'

complete -c ringfence -n '__ringfence_in reload' -F
complete -c ringfence -n '__ringfence_in reload' -a '(__ringfence_live) (__ringfence_policies)'

complete -c ringfence -n '__ringfence_in check' -a '(__ringfence_policies)'
complete -c ringfence -n '__ringfence_in check' -F
complete -c ringfence -n '__ringfence_in check' -l print -x -a 'rules patterns dfa net image' -d 'print what the compiler makes'

complete -c ringfence -n '__ringfence_in explain' -a 'read modify create delete attr exec write all connect'
complete -c ringfence -n '__ringfence_in explain' -F

complete -c ringfence -n '__ringfence_in doctor' -l no-probes -d 'only look'

complete -c ringfence -n '__ringfence_in help' -a 'run ps events reload status check explain doctor version'
