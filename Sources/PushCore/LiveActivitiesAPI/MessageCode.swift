/// The Live Activities API's id of an accepted notification, such as `C3F8-C3863ED4-334AD4F1`: 80 bits of a hash of the job's id.
package enum MessageCode {
  package static func text(ofJob id: String) -> String {
    var hash = SipHash128(key0: 0x6865_7261_6C64_206D, key1: 0x6573_7361_6765_2063)
    hash.append(UInt64(id.utf8.count))
    hash.append(padding: id.utf8.span)
    let (first, second) = hash.finish()
    let parts = [
      Hex.text(first >> 48, count: 4), Hex.text(first >> 16 & 0xFFFF_FFFF, count: 8), Hex.text(second >> 32, count: 8),
    ]
    return parts.joined(separator: "-").uppercased()
  }
}
