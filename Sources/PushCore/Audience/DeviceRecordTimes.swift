/// The times of a record's fields, as version 3 stores them: that of most fields, and the exceptions from it.
///
/// A field is known by its place in the order in which fields with times are written. The record's own time is not among
/// them: it is the common time, or the first of the others.
struct DeviceRecordTimes {
  /// A time that some fields have instead of the common one.
  struct Other {
    /// Unix milliseconds.
    var time: Int64
    /// Ascending.
    var places: [Int]
  }

  /// Unix milliseconds.
  private(set) var common: Int64
  /// The record's first, if it is not the common one; then the newest first, so that the differences are small.
  private(set) var others: [Other] = []
  /// Whether the first of the others is the record's.
  private(set) var isRecordOther = false
  /// The places of the fields without a time.
  private(set) var none: [Int] = []

  var isOneTime: Bool { others.isEmpty && none.isEmpty }

  /// - Parameters:
  ///   - at: the record's.
  ///   - fields: in the order in which they are written.
  init(at: Int64, fields: [Int64?]) {
    common = at
    if fields.allSatisfy({ $0 == at }) { return }
    var all = [Other(time: at, places: [])]
    for (place, time) in fields.enumerated() {
      if let time {
        if let index = all.firstIndex(where: { $0.time == time }) {
          all[index].places.append(place)
        } else {
          all.append(Other(time: time, places: [place]))
        }
      } else {
        none.append(place)
      }
    }
    var commonest = 0
    for index in all.indices where all[index].places.count > all[commonest].places.count { commonest = index }
    isRecordOther = commonest != 0
    common = all.remove(at: commonest).time
    if isRecordOther { others = [all.removeFirst()] }
    others += all.sorted { $0.time > $1.time }
  }
}
