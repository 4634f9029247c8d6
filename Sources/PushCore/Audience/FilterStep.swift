/// One thing that is done with the registers of an evaluation, each a chunk's bitmap. Sets are named by their index in the plan, the
/// register that changes by its number; `…Next` takes the register above it.
enum FilterStep: Hashable, Sendable {
  case clear(Int)
  case unite(Int, Int)
  case intersect(Int, Int)
  case subtract(Int, Int)
  case uniteNext(Int)
  case intersectNext(Int)
  case subtractNext(Int)
  /// The register becomes those whose number compares so; the one above it is used up.
  case compare(FilterComparison, Int)
}

/// Compares the numbers of a tag with one, bit by bit, for all devices of a chunk at a time (O'Neil and Quass, 1997).
struct FilterComparison: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case equal, atLeast, atMost
  }

  let kind: Kind
  /// What is compared with, in its sortable form.
  let bits: UInt64
  /// The set of those whose tag is a number.
  let numbers: Int
  /// The sets of the bits, from the most significant on, as many as decide.
  let planes: [Int]
}
