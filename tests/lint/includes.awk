# SPDX-License-Identifier: BSD-2-Clause
# The include rule: which layers each layer's files may include.
BEGIN {
	may["base"] = "base"
	may["wire"] = "base wire"
	may["engine"] = "base wire engine"
	may["link"] = "base wire link"
	may["xrdma"] = "base xrdma"
	may["verbs"] = "base wire engine link verbs"
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split(FILENAME, path, "/")
	split($0, quoted, "\"")
	split(quoted[2], to, "/")
	if (index(" " may[path[2]] " ", " " to[1] " ") == 0) {
		printf "%s:%d: %s may not include %s\n", FILENAME, FNR, path[2], quoted[2]
		bad = 1
	}
}
END { exit bad }
