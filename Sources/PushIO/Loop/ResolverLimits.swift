/// Bounds of a resolver: how many names are looked up at once, and how long somebody waits for one.
package struct ResolverLimits: Sendable {
  /// Names that are looked up at the same time, each on a thread of its own. A slow name takes one of them.
  package var lookupsMaximum = 4
  /// A look-up that takes longer is late: its name's last good addresses are used meanwhile, if there are any.
  package var patienceMilliseconds: Int64 = 1_000
  /// A question without an answer by then has failed. The look-up goes on, and what it finds is remembered.
  package var deadlineMilliseconds: Int64 = 10_000
  /// Last good addresses are used for so long, and no longer.
  package var ageMaximumMilliseconds: Int64 = 3_600_000
  /// Names whose last good addresses are remembered; the oldest goes first.
  package var namesMaximum = 64

  package init() {}
}
