// SHA-256 puzzle search for WebAssembly with SIMD128: four nonces at a time, one
// to a lane. Built by build.sh; solver.js is the only caller.
//
// The message of the puzzle is one block, seed (8 words), part, nonce, padding,
// and only word 9, the nonce, differs inside a part. So solver.js does rounds 0 to
// 7 once a part and this file does rounds 8 to 63 (FIPS 180-4, section 6.2.2).
// Eight rounds to a turn bring the eight names of the state back to where they
// were: one loop body of 3 KB does all of them. All 56 rounds written out were 3 %
// faster (measured once, x86-64 and node 20) and three times as large in the page.
//
// Memory, written by solver.js before each call, in 32-bit words (address 0 is
// kept free: C may not read through it):
//
//	 64  the 64 round constants
//	320  state after round 7
//	352  the 16 words of the block, word 9 being 0
//	512  work space: 64 schedule words of four lanes
// 1536  work space: what the nonce does not change in the first 24 of them

typedef unsigned u32;
typedef u32 lanes __attribute__((vector_size(16)));

#define CONSTANTS ((const u32 *)64)
#define STATE ((const u32 *)320)
#define BLOCK ((const u32 *)352)
#define SCHEDULE ((lanes *)512)
#define FIXED ((lanes *)1536)

#define ALL(x) ((lanes){(x), (x), (x), (x)})
#define ROTR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

#define SUM0(x) (ROTR(x, 2) ^ ROTR(x, 13) ^ ROTR(x, 22))
#define SUM1(x) (ROTR(x, 6) ^ ROTR(x, 11) ^ ROTR(x, 25))
#define SIGMA0(x) (ROTR(x, 7) ^ ROTR(x, 18) ^ ((x) >> 3))
#define SIGMA1(x) (ROTR(x, 17) ^ ROTR(x, 19) ^ ((x) >> 10))

// Maj(a,b,c) = b ^ ((a^b) & (b^c)), and this round's a^b is the next round's b^c.
#define ROUND(a, b, c, d, e, f, g, h, i)                                \
	t = h + SUM1(e) + (g ^ (e & (f ^ g))) + ALL(k[i]) + w[i];       \
	d += t;                                                         \
	ab = a ^ b;                                                     \
	h = t + SUM0(a) + (b ^ (ab & bc));                              \
	bc = ab;

#define EXTEND(i) w[i] = SIGMA1(w[(i) - 2]) + w[(i) - 7] + SIGMA0(w[(i) - 15]) + w[(i) - 16];

// search tries the nonces start, start+1, … start+count-1 (count: a multiple of 4)
// and returns the index of the first whose hash begins with 32-shift zero bits, or
// -1. 1 <= shift <= 31.
__attribute__((export_name("search"))) int search(u32 start, u32 count, u32 shift)
{
	// Words 17, 19 and 21 do not see the nonce; the even ones see it through their
	// left neighbour but one, whose sigma is left out here; 16 and 23 add it.
	for (int i = 0; i < 24; i++) {
		lanes x;
		if (i < 16) {
			x = ALL(BLOCK[i]);
		} else {
			x = FIXED[i - 7] + SIGMA0(FIXED[i - 15]) + FIXED[i - 16];
			if (i & 1)
				x += SIGMA1(FIXED[i - 2]);
		}
		SCHEDULE[i] = FIXED[i] = x;
	}
	lanes nonce = ALL(start) + (lanes){0, 1, 2, 3};

	for (u32 done = 0; done < count; done += 4, nonce += 4) {
		lanes a = ALL(STATE[0]), b = ALL(STATE[1]), c = ALL(STATE[2]), d = ALL(STATE[3]);
		lanes e = ALL(STATE[4]), f = ALL(STATE[5]), g = ALL(STATE[6]), h = ALL(STATE[7]);
		lanes t, ab, bc = b ^ c;
		const u32 *k = CONSTANTS + 8;
		lanes *w = SCHEDULE + 8;

		SCHEDULE[9] = nonce;
		SCHEDULE[16] = FIXED[16] + nonce;
		SCHEDULE[18] = FIXED[18] + SIGMA1(SCHEDULE[16]);
		SCHEDULE[20] = FIXED[20] + SIGMA1(SCHEDULE[18]);
		SCHEDULE[22] = FIXED[22] + SIGMA1(SCHEDULE[20]);
		SCHEDULE[23] = FIXED[23] + nonce;
		for (;;) {
			ROUND(a, b, c, d, e, f, g, h, 0)
			ROUND(h, a, b, c, d, e, f, g, 1)
			ROUND(g, h, a, b, c, d, e, f, 2)
			ROUND(f, g, h, a, b, c, d, e, 3)
			ROUND(e, f, g, h, a, b, c, d, 4)
			ROUND(d, e, f, g, h, a, b, c, 5)
			ROUND(c, d, e, f, g, h, a, b, 6)
			ROUND(b, c, d, e, f, g, h, a, 7)
			if (k == CONSTANTS + 56)
				break;
			k += 8;
			w += 8;
			if (k == CONSTANTS + 16)
				continue; // 16 to 23 are there
			EXTEND(0) EXTEND(1) EXTEND(2) EXTEND(3)
			EXTEND(4) EXTEND(5) EXTEND(6) EXTEND(7)
		}

		// Only the first word of the hash decides; the other seven are never made.
		int hit = __builtin_wasm_bitmask_i32x4((lanes)((a + ALL(0x6a09e667u)) >> shift == 0));
		if (hit)
			return done + __builtin_ctz(hit);
	}
	return -1;
}
