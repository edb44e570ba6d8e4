--- commands/keys.lua - %keys: the keys of the prompt's editor.
--
-- SPDX-License-Identifier: Apache-2.0

local text = [[
Enter                 runs what is complete, else begins a new line
Alt-Enter             a new line
Tab, Shift-Tab        completes behind a word, else indents; indents less
  in the menu         Tab, arrows move, Enter takes, Escape leaves
Alt-H, F1             what is known of what stands at the cursor
up, down              lines, then what was typed before and begins alike
Alt-P, Alt-N          history at once
Ctrl-R, Ctrl-S        search in the history: Enter runs, Escape edits
right, End, Ctrl-E    take the grey suggestion; Alt-F: a word of it
Ctrl-A, Ctrl-E        start, end of the line; Alt-<, Alt->: of the text
Alt-B, Alt-F          a word left, right; also Ctrl-left, Ctrl-right
Ctrl-K, Ctrl-U        cut to the end, the start of the line
Ctrl-W, Alt-D         cut a word to the left, to the right; Alt-Backspace
Ctrl-Y, Alt-Y         put back what was cut; then: what was cut before
Ctrl-T, Alt-T         swap two characters, two words
Alt-U, Alt-L, Alt-C   upper case, lower case, capital
Ctrl-_, Alt-_         undo, redo; also Ctrl-X Ctrl-U, Ctrl-X Ctrl-R
Ctrl-X Ctrl-E         edit in $VISUAL or $EDITOR
Ctrl-L                clear the screen
Ctrl-C                forget the text; while code runs: interrupt it
Ctrl-D                leave, where nothing has been typed
Ctrl-Z                stop, for the shell's fg

vi's keys: `set editing-mode vi` in ~/.inputrc, or TIDE_EDIT=vi. No colours:
NO_COLOR=1. Plain lines without an editor: TERM=dumb.]]

--- %keys: the keys of the prompt's editor.
return function()
  print(text)
end
