import PushCore

/// One pass over an audience's chunks: reads ahead, and reports them in order.
final class AudienceStream {
  private let reader: AudienceReader
  private let ahead: Int
  private let each: (Int, ChunkBitmap) -> Bool
  /// nil: ended.
  private var then: SegmentThen<Void>?
  /// Requested chunks, in order; nil: not answered yet.
  private var asked: [(chunk: Int, parts: [ChunkPart]?)] = []
  private var next: Int
  /// Avoids recursion when a request is answered at once.
  private var isGoingOn = false

  init(
    _ reader: AudienceReader, from chunk: Int, ahead: Int, each: @escaping (Int, ChunkBitmap) -> Bool,
    then: @escaping SegmentThen<Void>
  ) {
    self.reader = reader
    self.ahead = ahead
    self.each = each
    self.then = then
    next = chunk
  }

  func goOn() {
    guard !isGoingOn else { return }
    isGoingOn = true
    defer { isGoingOn = false }
    while then != nil {
      while asked.count < ahead, next < reader.chunkCount {
        let chunk = next
        next += 1
        if reader.isWorthReading(chunk) { ask(chunk) }
      }
      guard let first = asked.first else { return end(.success(())) }
      guard let parts = first.parts else { return }
      asked.removeFirst()
      let devices = reader.evaluated(parts)
      if !devices.isEmpty, !each(first.chunk, devices) { return end(.success(())) }
    }
  }

  private func ask(_ chunk: Int) {
    asked.append((chunk, nil))
    reader.parts(of: chunk) { [self] result in
      guard then != nil else { return }
      switch result {
      case .failure(let failure): end(.failure(failure))
      case .success(let parts):
        guard let place = asked.firstIndex(where: { $0.chunk == chunk }) else { return }
        asked[place].parts = parts
        goOn()
      }
    }
  }

  private func end(_ result: Result<Void, SegmentFailure>) {
    asked = []
    then.take()?(result)
  }
}
