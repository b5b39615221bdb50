# The first console's login is the desktop's.
if [ "$(id -un)" = lab ] && [ "$(tty)" = /dev/tty1 ]; then
    exec startx /usr/local/bin/session -- :0 vt1 -keeptty -nolisten tcp -s 0 >"$HOME/session.log" 2>&1
fi
