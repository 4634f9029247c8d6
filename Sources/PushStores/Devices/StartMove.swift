import PushCore

/// A push-to-start token's move from one device to another, as where an app gives its device another id. Both are one phone.
package struct StartMove: Hashable {
  /// A device, with its record's fingerprint.
  package struct Device: Hashable {
    package let ordinal: UInt32
    package let fingerprint: UInt32
  }

  package let from: Device
  package let to: Device
}

extension DeviceRegistry {
  func moveStarts(
    _ transaction: DeviceTransaction, _ commit: DeviceCommit, _ entry: DeviceRegistryScope,
    then: @escaping () -> Void
  ) {
    moveStarts(commit.startMoves[...], entry.scope) { [self] result in
      switch result {
      case .success: then()
      case .failure(let failure): finish(transaction, .failure(failure), entry)
      }
    }
  }

  private func moveStarts(_ moves: ArraySlice<StartMove>, _ scope: AppScope, _ then: @escaping Then<Void>) {
    guard let move = moves.first else { return then(.success(())) }
    startsMove(move, scope) { [self] result in
      guard case .success = result else { return then(result) }
      moveStarts(moves.dropFirst(), scope, then)
    }
  }
}
