#include "textflag.h"

// func distance16(a *byte, aStride int, b *byte, bStride int) int
TEXT ·distance16(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ aStride+8(FP), AX
	MOVQ b+16(FP), DI
	MOVQ bStride+24(FP), BX
	MOVQ $8, CX
	PXOR X0, X0
	PXOR X1, X1

rows:
	MOVOU  (SI), X2
	MOVOU  (DI), X3
	MOVOU  (SI)(AX*1), X4
	MOVOU  (DI)(BX*1), X5
	LEAQ   (SI)(AX*2), SI
	LEAQ   (DI)(BX*2), DI
	PSADBW X3, X2
	PSADBW X5, X4
	PADDQ  X2, X0
	PADDQ  X4, X1
	DECQ   CX
	JNZ    rows
	PADDQ  X1, X0
	PSHUFD $0x4e, X0, X1
	PADDQ  X1, X0
	MOVQ   X0, ret+32(FP)
	RET

// func distance8(a *byte, aStride int, b *byte, bStride int) int
TEXT ·distance8(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ aStride+8(FP), AX
	MOVQ b+16(FP), DI
	MOVQ bStride+24(FP), BX
	MOVQ $4, CX
	PXOR X0, X0
	PXOR X1, X1

rows:
	MOVQ   (SI), X2
	MOVQ   (DI), X3
	MOVQ   (SI)(AX*1), X4
	MOVQ   (DI)(BX*1), X5
	LEAQ   (SI)(AX*2), SI
	LEAQ   (DI)(BX*2), DI
	PSADBW X3, X2
	PSADBW X5, X4
	PADDQ  X2, X0
	PADDQ  X4, X1
	DECQ   CX
	JNZ    rows
	PADDQ  X1, X0
	MOVQ   X0, ret+32(FP)
	RET

// func squareDistances(source *square, squares *[10]square, d *[10]int32)
TEXT ·squareDistances(SB), NOSPLIT, $0-24
	MOVQ  source+0(FP), SI
	MOVQ  squares+8(FP), DI
	MOVQ  d+16(FP), DX
	MOVOU (SI), X0
	MOVQ  $5, CX

pairs:
	MOVOU  (DI), X1
	MOVOU  16(DI), X2
	PSADBW X0, X1
	PSADBW X0, X2
	PSHUFD $0x4e, X1, X3
	PSHUFD $0x4e, X2, X4
	PADDQ  X3, X1
	PADDQ  X4, X2
	MOVL   X1, (DX)
	MOVL   X2, 4(DX)
	ADDQ   $32, DI
	ADDQ   $8, DX
	DECQ   CX
	JNZ    pairs
	RET
