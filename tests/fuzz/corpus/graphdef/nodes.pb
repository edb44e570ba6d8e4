
;
xPlaceholder*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ

dNoOp^x"/device:CPU"†