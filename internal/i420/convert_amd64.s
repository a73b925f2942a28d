#include "textflag.h"

// func convertRowsAVX2(top, bottom, y0, y1, u, v, changed *byte, n int)
//
// Converts n > 0 blocks, two rows of 16 pixels each in turn. The factors
// of a pixel are four words of a quadword, for blue, green, red and nothing.
TEXT ·convertRowsAVX2(SB), NOSPLIT, $0-64
	MOVQ top+0(FP), SI
	MOVQ bottom+8(FP), DI
	MOVQ y0+16(FP), R8
	MOVQ y1+24(FP), R9
	MOVQ u+32(FP), R10
	MOVQ v+40(FP), R11
	MOVQ changed+48(FP), R12
	MOVQ n+56(FP), CX

	MOVQ $0x000020DE40880C88, AX // lumaR, lumaG, lumaB
	MOVQ AX, X15
	VPBROADCASTQ X15, Y15
	MOVQ $0x0000ED07DAC13838, AX // uR, uG, uB
	MOVQ AX, X14
	VPBROADCASTQ X14, Y14
	MOVQ $0x00003838D0ECF6DC, AX // vR, vG, vB
	MOVQ AX, X13
	VPBROADCASTQ X13, Y13
	MOVL $0x00084000, AX // lumaBias
	MOVQ AX, X12
	VPBROADCASTD X12, Y12
	MOVL $0x01010000, AX // chromaBias
	MOVQ AX, X11
	VPBROADCASTD X11, Y11
	MOVQ $0x0703060205010400, AX // the order of the groups of four samples
	MOVQ AX, X10
	VPMOVZXBD X10, Y10
	VPXOR Y9, Y9, Y9

loop:
	// The left eight pixels, widened to words: Y0, Y1 above, Y2, Y3 below.
	VMOVDQU (SI), Y4
	VMOVDQU (DI), Y5
	VPUNPCKLBW Y9, Y4, Y0 // pixels 0, 1 | 4, 5
	VPUNPCKHBW Y9, Y4, Y1 // pixels 2, 3 | 6, 7
	VPUNPCKLBW Y9, Y5, Y2
	VPUNPCKHBW Y9, Y5, Y3

	// The chroma's sums: Y6 is of four two by two boxes.
	VPADDW Y0, Y2, Y4
	VPADDW Y1, Y3, Y5
	VPUNPCKLQDQ Y5, Y4, Y6 // 0, 2 | 4, 6
	VPUNPCKHQDQ Y5, Y4, Y7 // 1, 3 | 5, 7
	VPADDW Y6, Y7, Y6

	VPMADDWD Y15, Y0, Y0
	VPMADDWD Y15, Y1, Y1
	VPHADDD Y1, Y0, Y0 // luma 0-3 | 4-7
	VPMADDWD Y15, Y2, Y2
	VPMADDWD Y15, Y3, Y3
	VPHADDD Y3, Y2, Y2
	VPADDD Y12, Y0, Y0
	VPSRAD $15, Y0, Y0
	VPADDD Y12, Y2, Y2
	VPSRAD $15, Y2, Y2

	// The same for the right eight: Y1 above, Y3 below, boxes in Y7.
	VMOVDQU 32(SI), Y4
	VMOVDQU 32(DI), Y5
	VPUNPCKLBW Y9, Y4, Y1
	VPUNPCKHBW Y9, Y4, Y4
	VPUNPCKLBW Y9, Y5, Y3
	VPUNPCKHBW Y9, Y5, Y5
	VPADDW Y1, Y3, Y7
	VPADDW Y4, Y5, Y8
	VPMADDWD Y15, Y1, Y1
	VPMADDWD Y15, Y4, Y4
	VPHADDD Y4, Y1, Y1
	VPMADDWD Y15, Y3, Y3
	VPMADDWD Y15, Y5, Y5
	VPHADDD Y5, Y3, Y3
	VPUNPCKLQDQ Y8, Y7, Y4
	VPUNPCKHQDQ Y8, Y7, Y5
	VPADDW Y4, Y5, Y7
	VPADDD Y12, Y1, Y1
	VPSRAD $15, Y1, Y1
	VPADDD Y12, Y3, Y3
	VPSRAD $15, Y3, Y3

	// Luma: 16 samples of the upper row, then 16 of the lower one.
	VPACKSSDW Y1, Y0, Y0 // above: 0-3, 8-11 | 4-7, 12-15
	VPACKSSDW Y3, Y2, Y2 // below
	VPACKUSWB Y2, Y0, Y0
	VPERMD Y0, Y10, Y0
	VMOVDQU (R8), X1
	VINSERTI128 $1, (R9), Y1, Y1
	VPXOR Y0, Y1, Y1
	VMOVDQU X0, (R8)
	VEXTRACTI128 $1, Y0, (R9)

	// Chroma: eight samples of each plane.
	VPMADDWD Y14, Y6, Y2
	VPMADDWD Y14, Y7, Y3
	VPHADDD Y3, Y2, Y2 // U 0, 1, 4, 5 | 2, 3, 6, 7
	VPMADDWD Y13, Y6, Y4
	VPMADDWD Y13, Y7, Y5
	VPHADDD Y5, Y4, Y4
	VPADDD Y11, Y2, Y2
	VPSRAD $17, Y2, Y2
	VPADDD Y11, Y4, Y4
	VPSRAD $17, Y4, Y4
	VPACKSSDW Y4, Y2, Y2
	VPACKUSWB Y2, Y2, Y2
	VEXTRACTI128 $1, Y2, X3
	VPUNPCKLWD X3, X2, X2 // U 0-7, V 0-7
	VMOVQ (R10), X3
	VPINSRQ $1, (R11), X3, X3
	VPXOR X2, X3, X3
	VMOVQ X2, (R10)
	VPEXTRQ $1, X2, (R11)

	VPOR Y3, Y1, Y1
	VPTEST Y1, Y1
	SETNE AX
	ORB AX, (R12)

	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $16, R8
	ADDQ $16, R9
	ADDQ $8, R10
	ADDQ $8, R11
	INCQ R12
	DECQ CX
	JNZ loop

	VZEROUPPER
	RET
