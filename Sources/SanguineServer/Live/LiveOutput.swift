import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// The response of a live connection.
protocol LiveOutput: Sendable {
    /// The executor of the tasks that write; `nil` for the default one.
    var executor: (any TaskExecutor)? { get }

    /// Prepares for writes.
    ///
    /// - Parameter closed: Called when the client has closed the connection.
    /// - Throws: An error if the connection no longer exists.
    func open(closed: @escaping @Sendable () -> Void) async throws

    /// Writes a part of the body, and returns when the system has accepted it.
    func write(_ part: ByteBuffer) async throws

    /// Writes the end of the body.
    func finish() async throws

    /// Closes the connection; a write in progress fails.
    func close()
}

/// A response that continues after the task that handled its request has ended.
///
/// The task of a connection keeps 14 KB while it waits, for the frames of all its callers.
struct DetachedResponse: LiveOutput {
    /// Ends the task that handled the request, without closing the connection.
    struct Detached: Error {}

    let channel: any Channel

    var executor: (any TaskExecutor)? { LoopExecutor.of(channel.eventLoop) }

    func open(closed: @escaping @Sendable () -> Void) async throws {
        try await channel.eventLoop.submit { [channel] in
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(CloseDetector(closed: closed), position: .first)
            try pipeline.handler(type: WriteBackpressure.self).ignoreClose()
        }
        .get()
    }

    func write(_ part: ByteBuffer) async throws {
        try await channel.writeAndFlush(HTTPResponsePart.body(part))
    }

    func finish() async throws {
        try await channel.writeAndFlush(HTTPResponsePart.end(nil))
    }

    func close() {
        channel.eventLoop.execute { [channel] in
            let flow = try? channel.pipeline.syncOperations.handler(type: WriteBackpressure.self)
            flow?.obeyClose()
            channel.close(promise: nil)
        }
    }
}
