# SPDX-License-Identifier: BSD-2-Clause
# Files of at most 700 lines, functions of at most 80 (opened and closed by a brace in column one).
FNR == 1 { open = 0 }
/^\{/ { open = FNR; name = above }
/^}/ {
	if (open && FNR - open > 80) {
		printf "%s:%d: function of %d lines: %s\n", FILENAME, open, FNR - open - 1, name
		bad = 1
	}
	open = 0
}
FNR == 701 { printf "%s: over 700 lines\n", FILENAME; bad = 1 }
{ above = $0 }
END { exit bad }
