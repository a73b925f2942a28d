# A window with a field, whose text Return writes to a file, after a dialog has
# confirmed it. Ctrl+S chooses another file to write to. A double click on an entry of
# the list writes that.
proc write {name text} {
	set f [open $name w]
	puts -nonewline $f $text
	close $f
}
wm title . board
entry .field -width 40
listbox .list -listvariable fruits
set fruits {apple banana cherry}
pack .field .list -fill x
focus .field
bind .field <Return> {
	if {[tk_messageBox -type yesno -message "Write it?"] eq "yes"} { write [lindex $argv 0] [.field get] }
	focus .field
}
bind . <Control-s> {
	set name [tk_getSaveFile]
	if {$name ne ""} { write $name [.field get] }
}
bind .list <Double-1> { write [lindex $argv 0] [.list get active] }
