package x11

import "github.com/jezek/xgb/xproto"

// First keysyms of rows (X11 protocol, appendix A).
const (
	keyF1  xproto.Keysym = 0xffbe
	keyKP0 xproto.Keysym = 0xffb0
)

// moreNames is the X names that keybind.KeysymToStr does not tell: those of
// characters, for which it returns the character, and those of keysyms with
// several names, of which it returns any one. The first is the one to show.
const moreNames = `20 space
21 exclam
22 quotedbl
23 numbersign
24 dollar
25 percent
26 ampersand
27 apostrophe quoteright
28 parenleft
29 parenright
2a asterisk
2b plus
2c comma
2d minus
2e period
2f slash
3a colon
3b semicolon
3c less
3d equal
3e greater
3f question
40 at
5b bracketleft
5c backslash
5d bracketright
5e asciicircum
5f underscore
60 grave quoteleft
7b braceleft
7c bar
7d braceright
7e asciitilde
d0 ETH Eth
d8 Oslash Ooblique
de THORN Thorn
f8 oslash ooblique
3a2 kra kappa
4a5 kana_conjunctive kana_middledot
4af kana_tsu kana_tu
4c1 kana_CHI kana_TI
4c2 kana_TSU kana_TU
4cc kana_FU kana_HU
5e7 Arabic_ha Arabic_heh
6a4 Ukrainian_ie Ukranian_je
6a6 Ukrainian_i Ukranian_i
6a7 Ukrainian_yi Ukranian_yi
6a8 Cyrillic_je Serbian_je
6a9 Cyrillic_lje Serbian_lje
6aa Cyrillic_nje Serbian_nje
6af Cyrillic_dzhe Serbian_dze
6b4 Ukrainian_IE Ukranian_JE
6b6 Ukrainian_I Ukranian_I
6b7 Ukrainian_YI Ukranian_YI
6b8 Cyrillic_JE Serbian_JE
6b9 Cyrillic_LJE Serbian_LJE
6ba Cyrillic_NJE Serbian_NJE
6bf Cyrillic_DZHE Serbian_DZE
7a5 Greek_IOTAdieresis Greek_IOTAdiaeresis
7cb Greek_LAMDA Greek_LAMBDA
7eb Greek_lamda Greek_lambda
ce1 hebrew_bet hebrew_beth
ce2 hebrew_gimel hebrew_gimmel
ce3 hebrew_dalet hebrew_daleth
ce6 hebrew_zain hebrew_zayin
ce7 hebrew_chet hebrew_het
ce8 hebrew_tet hebrew_teth
cf1 hebrew_samech hebrew_samekh
cf5 hebrew_finalzade hebrew_finalzadi
cf6 hebrew_zade hebrew_zadi
cf7 hebrew_qoph hebrew_kuf
cfa hebrew_taw hebrew_taf
fe53 dead_tilde dead_perispomeni
fe64 dead_abovecomma dead_psili
fe65 dead_abovereversedcomma dead_dasia
ff23 Henkan_Mode Henkan
ff37 Codeinput Kanji_Bangou Hangul_Codeinput
ff3c SingleCandidate Hangul_SingleCandidate
ff3d MultipleCandidate Zen_Koho Hangul_MultipleCandidate
ff3e PreviousCandidate Mae_Koho Hangul_PreviousCandidate
ff55 Page_Up Prior
ff56 Page_Down Next
ff7e Mode_switch script_switch ISO_Group_Shift kana_switch Arabic_switch Greek_switch Hebrew_switch Hangul_switch
ff9a KP_Page_Up KP_Prior
ff9b KP_Page_Down KP_Next
ffaa KP_Multiply
ffab KP_Add
ffad KP_Subtract
ffae KP_Decimal
ffaf KP_Divide
ffb0 KP_0
ffb1 KP_1
ffb2 KP_2
ffb3 KP_3
ffb4 KP_4
ffb5 KP_5
ffb6 KP_6
ffb7 KP_7
ffb8 KP_8
ffb9 KP_9
100055b Armenian_accent Armenian_shesht
100055c Armenian_exclam Armenian_amanak
100055d Armenian_separation_mark Armenian_but
100055e Armenian_question Armenian_paruyk
1000589 Armenian_full_stop Armenian_verjaket
100058a Armenian_hyphen Armenian_yentamna
10006cc Farsi_yeh Arabic_farsi_yeh`

// commonNames is how xdotool, Playwright, pyautogui, browsers and people call
// keys, folded, and the X name of each.
const commonNames = `ctrl=Control_L control=Control_L ctrlleft=Control_L controlleft=Control_L ctrlright=Control_R controlright=Control_R lctrl=Control_L rctrl=Control_R controlormeta=Control_L
shift=Shift_L shiftleft=Shift_L shiftright=Shift_R lshift=Shift_L rshift=Shift_R
alt=Alt_L altleft=Alt_L altright=Alt_R lalt=Alt_L ralt=Alt_R option=Alt_L opt=Alt_L optionleft=Alt_L optionright=Alt_R altgr=ISO_Level3_Shift altgraph=ISO_Level3_Shift
cmd=Super_L command=Super_L super=Super_L win=Super_L windows=Super_L meta=Super_L os=Super_L metaleft=Super_L metaright=Super_R cmdleft=Super_L cmdright=Super_R commandleft=Super_L commandright=Super_R
superleft=Super_L superright=Super_R winleft=Super_L winright=Super_R lwin=Super_L rwin=Super_R osleft=Super_L osright=Super_R hyper=Hyper_L compose=Multi_key
enter=Return ret=Return newline=Return linefeed=Linefeed esc=Escape backspace=BackSpace bksp=BackSpace bs=BackSpace del=Delete ins=Insert spacebar=space spc=space
pgup=Page_Up pageup=Page_Up pgdn=Page_Down pgdown=Page_Down pagedown=Page_Down arrowleft=Left arrowright=Right arrowup=Up arrowdown=Down leftarrow=Left rightarrow=Right uparrow=Up downarrow=Down
prtsc=Print prtscr=Print prntscrn=Print printscreen=Print prtscn=Print printscrn=Print capslock=Caps_Lock caps=Caps_Lock numlock=Num_Lock scrolllock=Scroll_Lock contextmenu=Menu apps=Menu
dash=minus dot=period equals=equal equalsign=equal quote=apostrophe singlequote=apostrophe doublequote=quotedbl backquote=grave backtick=grave tilde=asciitilde
pipe=bar hash=numbersign exclamation=exclam dollarsign=dollar atsign=at lessthan=less greaterthan=greater intlbackslash=less leftbracket=bracketleft rightbracket=bracketright
leftbrace=braceleft rightbrace=braceright leftparen=parenleft rightparen=parenright
numpadenter=KP_Enter numpadadd=KP_Add numpadsubtract=KP_Subtract numpadmultiply=KP_Multiply numpaddivide=KP_Divide numpaddecimal=KP_Decimal numpadcomma=KP_Separator numpadequal=KP_Equal
add=KP_Add subtract=KP_Subtract divide=KP_Divide decimal=KP_Decimal separator=KP_Separator
volumeup=XF86AudioRaiseVolume volumedown=XF86AudioLowerVolume volumemute=XF86AudioMute audiovolumeup=XF86AudioRaiseVolume audiovolumedown=XF86AudioLowerVolume audiovolumemute=XF86AudioMute mute=XF86AudioMute
playpause=XF86AudioPlay mediaplaypause=XF86AudioPlay mediaplay=XF86AudioPlay mediapause=XF86AudioPause mediastop=XF86AudioStop mediatracknext=XF86AudioNext mediatrackprevious=XF86AudioPrev
nexttrack=XF86AudioNext prevtrack=XF86AudioPrev stop=XF86AudioStop
browserback=XF86Back browserforward=XF86Forward browserhome=XF86HomePage browserrefresh=XF86Refresh browsersearch=XF86Search browserstop=XF86Stop browserfavorites=XF86Favorites
launchmail=XF86Mail launchmediaselect=XF86AudioMedia launchapp1=XF86MyComputer launchapp2=XF86Calculator sleep=XF86Sleep wakeup=XF86WakeUp power=XF86PowerOff eject=XF86Eject
brightnessup=XF86MonBrightnessUp brightnessdown=XF86MonBrightnessDown kana=Kana_Lock hangul=Hangul hanja=Hangul_Hanja convert=Henkan_Mode nonconvert=Muhenkan`
