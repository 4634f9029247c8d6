/// A resolver's limits: concurrent look-ups, and waiting times.
package struct ResolverLimits: Sendable {
  /// Names resolved at the same time, each on its own thread. A slow name occupies one of them.
  package var lookupsMaximum = 4
  /// A look-up that takes longer is late: until it ends, the name's last good addresses are used, if there are any.
  package var patienceMilliseconds: Int64 = 1_000
  /// A question that is unanswered by then has failed. The look-up continues, and its result is remembered.
  package var deadlineMilliseconds: Int64 = 10_000
  /// Last good addresses are used for at most this long.
  package var ageMaximumMilliseconds: Int64 = 3_600_000
  /// Names whose last good addresses are remembered; the oldest is evicted first.
  package var namesMaximum = 64

  package init() {}
}
