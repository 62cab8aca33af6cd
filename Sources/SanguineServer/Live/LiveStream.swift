import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// Writes the events of a live connection until it ends.
struct LiveStream: Sendable {
    let connection: LiveConnection
    let channel: any Channel
    /// Called once the connection can be woken and ended.
    let entered: @Sendable (LiveConnection) -> Void
    let wrote: @Sendable (_ events: Int) -> Void

    func write(to writer: inout any ResponseBodyWriter) async throws {
        let account = connection.account
        let watch = CloseDetector { [connection] in connection.end(.closed) }
        try await channel.pipeline.addHandler(watch, position: .first)
        defer { channel.pipeline.removeHandler(watch, promise: nil) }
        // Done before the first read, so that later commits wake the connection.
        account.enter(connection)
        defer { account.remove(connection) }
        entered(connection)
        try await writeRetry(after: LiveLimits.retry, to: &writer)
        while true {
            switch await connection.nextStep() {
            case .read:
                try await writeNews(of: account, to: &writer)
            case .lists(let names):
                let bytes = ByteBuffer(bytes: LiveEvents.bytes(ofChangedLists: names))
                try await connection.writing { try await writer.write(bytes) }
            case .ping:
                try await write(": ping\n\n", to: &writer)
            case .end(let ending):
                return try await end(ending, &writer)
            }
        }
    }

    private func writeNews(
        of account: LiveAccount,
        to writer: inout any ResponseBodyWriter
    ) async throws {
        let page: LivePage
        do throws(Problem) {
            page = try await account.page(after: connection.position)
        } catch {
            return error.code == .notFound ? connection.end(.accountGone) : connection.readFailed()
        }
        var bytes = page.bytes
        while let part = bytes.readSlice(length: min(LiveLimits.writeBytes, bytes.readableBytes)),
            part.readableBytes > 0
        {
            try await connection.writing { try await writer.write(part) }
        }
        wrote(page.events)
        connection.wrote(page, head: account.head)
    }

    private func end(
        _ ending: LiveConnectionState.Ending,
        _ writer: inout any ResponseBodyWriter
    ) async throws {
        switch ending {
        case .closed, .slow:
            throw CancellationError()  // The client no longer reads.
        case .shutdown:
            let part = Double.random(in: 0...1)
            let spread = (LiveLimits.retryAfterShutdown - LiveLimits.retry) * part
            try await writeRetry(after: LiveLimits.retry + spread, to: &writer)
        case .unauthenticated, .accountGone: break
        }
        try await connection.writing { try await writer.finish(nil) }
    }

    private func writeRetry(
        after time: Duration,
        to writer: inout any ResponseBodyWriter
    ) async throws {
        let milliseconds = time.wholeNanoseconds / 1_000_000
        try await write("retry: \(milliseconds)\n\n", to: &writer)
    }

    private func write(_ text: String, to writer: inout any ResponseBodyWriter) async throws {
        try await connection.writing { try await writer.write(ByteBuffer(string: text)) }
    }
}
