# How the scripts of this folder speak; they read it with `source`.

say() { printf 'setup: %s\n' "$*"; }

apt_said() # <what apt printed: its errors in one line, else its first warning, else nothing
{
	awk '
		/^E: / && !seen[$0]++ { errors = errors (errors ? "; " : "") $0 }
		/^W: / && !warning { warning = $0 }
		END { if (errors || warning) print errors ? errors : warning }'
}
