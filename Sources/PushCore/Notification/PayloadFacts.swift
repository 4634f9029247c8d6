/// What one pass over a payload found out: enough for the rules of every push type, because the type may stand behind
/// the payload in the job.
struct PayloadFacts: Sendable {
  enum Alert: Sendable {
    case absent, string, object, emptyObject
  }

  /// A value that has not the shape of its key.
  struct Fault: Sendable {
    var key: PayloadKey
    /// The key whose object holds `key`, where that is not plain from the key.
    var parent: PayloadKey?
    /// Offset of the value in the job.
    var offset: Int
  }

  /// Keys that are there and not null.
  var keys: PayloadKeySet = []
  /// Keys of the root whose value is a string that is not empty.
  var filledStrings: PayloadKeySet = []
  /// Texts of the alert that are objects.
  var textObjects: PayloadKeySet = []
  var rootKeyCount = 0
  var alert = Alert.absent
  var event: ActivityEvent?
  var isContentAvailableOne = false
  var isContentChangedTrue = false
  /// `relevance-score` is below 0 or above 1; the offset of its value.
  var relevanceScoreOutside: Int?
  /// The first fault of a key that has its meaning in every push.
  var fault: Fault?
  /// The first fault of a key that has its meaning in Live Activities alone.
  var liveActivityFault: Fault?
}
