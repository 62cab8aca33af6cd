import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import SanguineServer

/// Bodies that arrive too slowly, measured in turns.
@Suite("Upload watch", .bounded)
struct UploadTimeoutsTests {
    @Test func `a body that takes longer than its turns loses its connection`() throws {
        let watch = UploadTimeouts(turns: 2)
        let channel = try EmbeddedChannel.connected()
        _ = watch.enter(channel)

        watch.endTurn()
        watch.endTurn()
        #expect(channel.isActive)
        watch.endTurn()
        #expect(!channel.isActive)
    }

    @Test func `a body with a multiple of the time may take that multiple of the turns`() throws {
        let watch = UploadTimeouts(turns: 2)
        let channel = try EmbeddedChannel.connected()
        _ = watch.enter(channel, times: 3)

        for _ in 1...6 { watch.endTurn() }
        #expect(channel.isActive)
        watch.endTurn()
        #expect(!channel.isActive)
    }

    @Test func `a received body no longer affects its connection`() throws {
        let watch = UploadTimeouts(turns: 1)
        let channel = try EmbeddedChannel.connected()
        let ticket = watch.enter(channel)

        watch.stopWatching(ticket)
        for _ in 1...5 { watch.endTurn() }

        #expect(channel.isActive)
    }

    @Test func `one slow body does not end another`() throws {
        let watch = UploadTimeouts(turns: 1)
        let slow = try EmbeddedChannel.connected()
        let quick = try EmbeddedChannel.connected()
        _ = watch.enter(slow)
        watch.endTurn()
        _ = watch.enter(quick)
        watch.endTurn()

        #expect(!slow.isActive)
        #expect(quick.isActive)
    }
}

extension EmbeddedChannel {
    /// Returns an open channel.
    fileprivate static func connected() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        let peer = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
        try channel.connect(to: peer).wait()  // tidy: allow unbounded-wait: embedded, at once.
        return channel
    }
}
