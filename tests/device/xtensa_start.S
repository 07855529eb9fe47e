/* The core starts at the first byte of memory, whatever the ELF file calls its entry. */
  .section .start, "ax"
  .global start
  .align 4
start:
  j go
  .align 4
  .literal_position
go:
  movi a1, stack_top
  movi a0, main
  callx0 a0
  mov a3, a2
  movi a2, 1
  .byte 0x00, 0x51, 0x00 /* simcall: exit */
halt:
  j halt

/* void simcall(operation, a, b, c) */
  .text
  .global simcall
  .align 4
simcall:
  .byte 0x00, 0x51, 0x00
  ret

/* uint32_t cycle_count(void) */
  .global cycle_count
  .align 4
cycle_count:
  rsr.ccount a2
  ret
