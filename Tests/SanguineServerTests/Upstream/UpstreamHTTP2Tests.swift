import AsyncHTTPClient
import NIOSSL
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Requests to upstreams over HTTP/2 that are lost, and those that are sent again.
@Suite("Upstreams over HTTP/2", .bounded)
struct UpstreamHTTP2Tests {
    private typealias Ending = HTTP2Upstream.Ending

    private struct World {
        let client: UpstreamClient
        let upstream: HTTP2Upstream

        /// Makes a call, and returns the text of its answer, or its error.
        func ask(streamed: Bool = false) async -> Result<String, UpstreamError> {
            await client.attempt(
                .prompt(UpstreamWorld.prompt("What?")),
                within: .seconds(60),
                streamed: streamed,
                progress: client.progress()
            )
            .map(\.text)
        }

        /// The connections of the requests, in order.
        var connections: [Int] { upstream.state.value.requests.map(\.connection) }
    }

    private static let answer = Result<String, UpstreamError>.success(HTTP2Upstream.text)
    private static let lost = Result<String, UpstreamError>.failure(
        .failed(mayHaveBeenSent: true)
    )

    private func with(
        _ ending: @escaping @Sendable (HTTP2Upstream.Request) -> HTTP2Upstream.Ending,
        _ body: (World) async throws -> Void
    ) async throws {
        try await HTTP2Upstream.with(ending) { upstream in
            let configuration = try UpstreamConfiguration(
                url: upstream.url,
                model: "m-1",
                connectTimeout: .seconds(60)
            )
            var settings = configuration.httpClientConfiguration()
            var tls = TLSConfiguration.makeClientConfiguration()
            tls.trustRoots = .certificates(
                try NIOSSLCertificate.fromPEMBytes(Array(TestCertificate.first.pem.utf8))
            )
            settings.tlsConfiguration = tls
            let connections = UpstreamConnections(settings)
            let client = UpstreamClient(
                configuration: configuration,
                connections: connections,
                clock: ManualClock()
            )
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(World(client: client, upstream: upstream)))
            } catch {
                result = .failure(error)
            }
            try await connections.shutdown()
            try result.get()
        }
    }

    @Test(arguments: [true, false])
    func `requests share a connection`(streamed: Bool) async throws {
        try await with { _ in
            .answers
        } _: { world in
            for _ in 1...5 { #expect(await world.ask(streamed: streamed) == Self.answer) }
            #expect(world.connections == [1, 1, 1, 1, 1])
        }
    }

    @Test(arguments: [1, 2], [true, false])
    func `a request that the upstream refused to process is sent again`(
        refused: Int,
        streamed: Bool
    ) async throws {
        try await with {
            $0.number == refused ? .resets(HTTP2Upstream.refusedStream) : .answers
        } _: { world in
            for _ in 1...2 { #expect(await world.ask(streamed: streamed) == Self.answer) }
            #expect(world.upstream.state.value.requests.count == 3)
        }
    }

    @Test(arguments: [1, 2], [true, false])
    func `a request that a closing upstream did not process is sent again`(
        lost: Int,
        closes: Bool
    ) async throws {
        try await with { request in
            let last = request.stream == 1 ? 0 : request.stream - 2
            return request.number == lost ? .goesAway(last: last, closes: closes) : .answers
        } _: { world in
            for _ in 1...3 { #expect(await world.ask() == Self.answer) }
            #expect(world.upstream.state.value.requests.count == 4)
        }
    }

    @Test func `a request that is refused twice is not sent a third time`() async throws {
        try await with { _ in
            .resets(HTTP2Upstream.refusedStream)
        } _: { world in
            #expect(await world.ask() == Self.lost)
            #expect(world.connections == [1, 2])
        }
    }

    @Test(
        arguments: [
            HTTP2Upstream.internalError, HTTP2Upstream.cancel, HTTP2Upstream.calm,
        ]
    )
    func `a request that the upstream has read and reset is not sent again`(
        code: UInt32
    ) async throws {
        try await with {
            $0.number == 1 ? .answers : .resets(code)
        } _: { world in
            #expect(await world.ask() == Self.answer)
            #expect(await world.ask() == Self.lost)
            #expect(world.connections == [1, 1])
        }
    }

    @Test func `a request that a closing upstream may have processed is not sent again`()
        async throws
    {
        try await with {
            $0.number == 1 ? .answers : .goesAway(last: $0.stream, closes: true)
        } _: { world in
            #expect(await world.ask() == Self.answer)
            #expect(await world.ask() == Self.lost)
            #expect(world.connections == [1, 1])
        }
    }

    @Test func `a request is sent again only if it is lost on a kept connection`() async throws {
        try await with {
            $0.number == 1 || $0.stream == 3 ? .hangsUp : .answers
        } _: { world in
            #expect(await world.ask() == Self.lost)
            // The next request may still be given to the closed connection, and is then sent again
            // on one that is not kept.
            for _ in 1...3 { #expect(await world.ask() == Self.answer) }
            #expect(world.upstream.state.value.requests.contains { $0.stream == 3 })
        }
    }

    @Test func `an idle connection that the upstream has closed fails no request`() async throws {
        try await with { _ in
            .answers
        } _: { world in
            for round in 1...10 {
                #expect(await world.ask() == Self.answer, "round \(round)")
                // An upstream may announce the end first.
                if round.isMultiple(of: 2) { world.upstream.announceEnd() }
                await world.upstream.hangUp()
            }
        }
    }
}
