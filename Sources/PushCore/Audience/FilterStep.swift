/// One operation on the registers of an evaluation, each a chunk's bitmap. Sets are given by their index in the plan,
/// the target register by its number; `…Next` reads the register above it.
enum FilterStep: Hashable, Sendable {
  case clear(Int)
  case unite(Int, Int)
  case intersect(Int, Int)
  case subtract(Int, Int)
  case uniteNext(Int)
  case intersectNext(Int)
  case subtractNext(Int)
  /// Sets the register to the devices whose number matches; overwrites the register above it.
  case compare(FilterComparison, Int)
}

/// Compares the numbers of a tag with one number, bit by bit, for all devices of a chunk at once (O'Neil and Quass,
/// 1997).
struct FilterComparison: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case equal, atLeast, atMost
  }

  let kind: Kind
  /// The number to compare with, in its sortable form.
  let bits: UInt64
  /// The set of devices whose tag is a number.
  let numbers: Int
  /// The sets of the bits, from the most significant one to the last one that matters.
  let planes: [Int]
}
