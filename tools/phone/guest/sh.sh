#!/usr/bin/mksh
# What adbd starts: of adbd's own protection, what runs here must have none.
echo 0 >/proc/self/oom_score_adj
exec /usr/bin/mksh "$@"
