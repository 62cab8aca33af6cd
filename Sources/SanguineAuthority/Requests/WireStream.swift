import SanguineModel

/// The body of an answer that is made while it is read.
package struct WireStream: Sendable {
    /// Waits for the next bytes; `nil` at the end.
    package var next: @Sendable () async -> [UInt8]?
    /// The reader is gone, or has read all.
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
    /// A call as server-sent events: `delta`, and then `result` or `problem`.
    ///
    /// An event's id is its index, and its bytes are the same whenever it is sent. A problem that
    /// is not the call's end has none: a reader that comes back has seen as much as before.
    init(_ events: CallEvents) {
        self.init(
            next: { await events.next().map(Self.bytes) },
            close: { events.close() }
        )
    }

    private static func bytes(of event: CallEvent) -> [UInt8] {
        switch event {
        case .parts(let first, let texts):
            return zip(first..., texts).flatMap { index, text in
                bytes(index, "delta", AnswerEncoder.encode(FunctionDelta(text: text)))
            }
        case .end(let index, .success(let answer)):
            return bytes(index, answer.status == 200 ? "result" : "problem", answer.body)
        case .end(_, .failure(let problem)):
            return bytes(nil, "problem", AnswerEncoder.encode(problem))
        case .quiet:
            return Array(": ping\n\n".utf8)
        }
    }

    private static func bytes(_ index: Int64?, _ type: String, _ data: [UInt8]) -> [UInt8] {
        let id = index.map { "id: \($0)\n" } ?? ""
        return Array("\(id)event: \(type)\ndata: ".utf8) + data + Array("\n\n".utf8)
    }
}
