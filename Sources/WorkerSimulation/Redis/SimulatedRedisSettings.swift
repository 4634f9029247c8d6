/// What a simulated Redis is from its start on.
package struct SimulatedRedisSettings: Hashable, Sendable {
  package var host = "redis"
  package var port: UInt16 = 6379
  /// nil: everybody may ask.
  package var password: String?
  package var user = "default"
  /// What its clock shows when the world's begins, Unix microseconds.
  package var unixMicroseconds: Int64 = 1_796_000_000_000_000
  package var databaseCount = 16
  /// `INFO` and `HELLO` tell it.
  package var version = "7.0.15"
  /// Writes that were made in the last so many nanoseconds can be forgotten.
  package var rememberedNanoseconds: Int64 = 10_000_000_000
  /// A hash with more fields, or a longer one, is listed in no order (`hash-max-listpack-entries`, `-value`).
  package var listedFieldsMaximum = 128
  package var listedBytesMaximum = 64

  package init() {}
}
