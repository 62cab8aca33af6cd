import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

enum ArticlePush: Decodable, Sendable {
    case changed(Article)
    case renamed(id: Int, name: String)
    case listChanged
}

func take(_ message: Data, in client: SanguineClient) throws {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    switch try decoder.decode(ArticlePush.self, from: message) {
    case .changed(let article): client.set(article, for: .article(article.id))
    case .renamed(let id, let name): client.update(.article(id)) { $0.authorName = name }
    case .listChanged: client.invalidate(.newest)
    }
}

private func log(_ text: String) {}

func followPushes(
    _ client: SanguineClient,
    waiting delay: any Clock<Duration>,
    _ connect: @Sendable () async throws -> AsyncThrowingStream<Data, any Error>
) async throws {
    while true {
        do {
            let messages = try await connect()
            client.invalidate(all: "article")
            client.invalidate(.newest)
            for try await message in messages { try take(message, in: client) }
        } catch {
            log("The connection broke: \(error)")
        }
        // Throws when the task is cancelled.
        try await delay.sleep(for: .seconds(2))
    }
}

func messages(of task: URLSessionWebSocketTask) -> AsyncThrowingStream<Data, any Error> {
    task.resume()
    return AsyncThrowingStream {
        let message = try await withTaskCancellationHandler {
            try await task.receive()
        } onCancel: {
            task.cancel()
        }
        return switch message {
        case .data(let data): data
        case .string(let text): Data(text.utf8)
        @unknown default: nil
        }
    }
}

/// Messages that a backend pushes become values.
@Suite("Push message snippets", .bounded)
struct PushSnippets {
    typealias Messages = AsyncThrowingStream<Data, any Error>

    struct Broken: Error {}

    private static func article(_ name: String) -> String {
        #"{"id":1,"authorName":"\#(name)","publishedAt":"2026-01-02T03:04:05Z"}"#
    }

    @Test func `a push is shown, and missed changes are fetched after each connection`()
        async throws
    {
        let backend = WatchedState("Ada")
        let network = ScriptedTransport { _ in
            .respond(TransportResponse(status: 200, body: Data(Self.article(backend.value).utf8)))
        }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org/v2")
        configuration.transport = network
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let shown = WatchedState<[String]>([])
        let following = client.observe(.article(1)) { state in
            if let name = state.value?.authorName { shown.withLock { $0.append(name) } }
        }
        let sockets = WatchedState<[Messages.Continuation]>([])
        let delay = ManualClock()
        let task = Task {
            try await followPushes(client, waiting: delay) {
                let (stream, continuation) = Messages.makeStream()
                sockets.withLock { $0.append(continuation) }
                return stream
            }
        }
        try await shown.wait(for: "the first value") { $0.last == "Ada" }
        try await sockets.wait(for: "a connection") { $0.count == 1 }
        try await network.waitForRequests(1)

        let push = #"{"changed":{"_0":\#(Self.article("Bea"))}}"#
        sockets.value[0].yield(Data(push.utf8))
        try await shown.wait(for: "a pushed value") { $0.last == "Bea" }
        sockets.value[0].yield(Data(#"{"renamed":{"id":1,"name":"Cleo"}}"#.utf8))
        try await shown.wait(for: "a pushed part") { $0.last == "Cleo" }

        // Changes during a broken connection are not pushed.
        backend.withLock { $0 = "Dora" }
        sockets.value[0].finish(throwing: Broken())
        try await eventually("the connection is reopened") {
            delay.advance(by: .seconds(2))
            return sockets.value.count == 2
        }
        try await shown.wait(for: "the missed change") { $0.last == "Dora" }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.finished() }
        #expect(shown.value.first == "Ada")
        withExtendedLifetime(following) {}
    }
}
