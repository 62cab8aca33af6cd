import SanguineModel

/// A response body that is produced while it is sent.
package struct WireStream: Sendable {
    /// The length of the body; `nil` if it is unknown before the end.
    package var length: Int?
    /// The maximum number of its bytes in memory at a time.
    ///
    /// Default: the size of one result of ``next``.
    package var pieceBytes = 0
    /// Waits for the next bytes; `nil` at the end, or if a body of known length breaks off.
    package var next: @Sendable () async -> [UInt8]?
    /// Whether a body of unknown length was read to its end; asked after ``next`` returned `nil`.
    ///
    /// If it was not, the connection is closed, so that the client does not take a part for the
    /// whole. Default: yes.
    package var isComplete: @Sendable () -> Bool = { true }
    /// Called when the reader has disconnected or has read everything.
    package var close: @Sendable () -> Void

    /// Creates a body.
    package init(
        next: @escaping @Sendable () async -> [UInt8]?,
        close: @escaping @Sendable () -> Void
    ) {
        self.next = next
        self.close = close
    }
}

extension WireStream {
    /// Creates the server-sent events of a call: `delta`, then `result` or `problem`.
    ///
    /// The id of an event is its index, and its bytes never change. A problem that is not the end
    /// of the call has no id, so a reader that resumes misses nothing.
    init(_ events: CallEventStream) {
        self.init(
            next: { await events.next().map(Self.bytes) },
            close: { events.close() }
        )
    }

    private static func bytes(of event: CallEvent) -> [UInt8] {
        switch event {
        case .parts(let first, let texts):
            return zip(first..., texts).flatMap { index, text in
                bytes(index, "delta", ResponseEncoder.encode(FunctionDelta(text: text)))
            }
        case .end(let index, .success(let answer)):
            return bytes(index, answer.status == 200 ? "result" : "problem", answer.body)
        case .end(_, .failure(let problem)):
            return bytes(nil, "problem", ResponseEncoder.encode(problem))
        case .idle:
            return Array(": ping\n\n".utf8)
        }
    }

    private static func bytes(_ index: Int64?, _ type: String, _ data: [UInt8]) -> [UInt8] {
        let id = index.map { "id: \($0)\n" } ?? ""
        return Array("\(id)event: \(type)\ndata: ".utf8) + data + Array("\n\n".utf8)
    }
}
