import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Files that are large enough to be uploaded in parts.
@Suite("Resumable uploads of the client", .bounded)
struct ResumableUploadTests {
    private static let film = Data(SampleFile.mp4.bytes(filler: 5_000_000))

    private let fixture = ClientFixture()
    private let network: PartNetwork
    private var film: RequestBody { .data(Self.film, type: "video/mp4") }

    init() { network = PartNetwork(fixture.authority.server) }

    private func client() throws -> SanguineClient {
        try fixture.client { $0.transport = network }
    }

    @Test func `a large file is sent in parts with progress`() async throws {
        let client = try client()
        let reported = Mutex<[UploadProgress]>([])
        let facts = try await client.upload(film) { progress in
            reported.withLock { $0.append(progress) }
        }
        #expect(facts.type == "video/mp4" && facts.size <= Self.film.count)
        #expect(network.offsets == [0, 2 << 20, 4 << 20])
        let all = reported.withLock { $0 }
        #expect(all.last?.fraction == 1)
        #expect(all.map(\.sentBytes) == all.map(\.sentBytes).sorted())
        #expect(Set(all.map(\.totalBytes)) == [Int64(Self.film.count)])
    }

    @Test func `a small file is sent in one piece`() async throws {
        let client = try client()
        _ = try await client.upload(.data(Data(SampleFile.jpeg.bytes())))
        #expect(network.offsets.isEmpty)
        #expect(network.count("POST", "/v1/blobs") == 1)
    }

    @Test(arguments: [false, true])
    func `an interrupted upload continues, even if only the answer was lost`(
        isReceived: Bool
    ) async throws {
        let client = try client()
        network.cut(part: 1, isReceived: isReceived)
        let facts = try await client.upload(film)
        #expect(facts.type == "video/mp4")
        let expected = isReceived ? [0, 2 << 20, 4 << 20] : [0, 2 << 20, 2 << 20, 4 << 20]
        #expect(network.offsets == expected)
    }

    @Test func `another launch of the app continues the upload`() async throws {
        try await ClientFixture.withFolder { folder in
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let url = folder.appending(path: "film.mp4")
            try Self.film.write(to: url)
            let first = try fixture.client(folder: folder.appending(path: "client")) {
                $0.transport = network
            }
            network.cut(part: 1, times: .max)
            let failed = await #expect(throws: SanguineError.self) {
                try await first.upload(.file(url, type: "video/mp4"))
            }
            #expect(failed?.asProblem == nil)
            first.close()

            network.reset()
            let second = try fixture.client(folder: folder.appending(path: "client")) {
                $0.transport = network
            }
            _ = try await second.upload(.file(url, type: "video/mp4"))
            #expect(network.offsets == [2 << 20, 4 << 20])
            // The server has the file: nothing is sent again.
            network.reset()
            _ = try await second.upload(.file(url, type: "video/mp4"))
            #expect(network.offsets.isEmpty && network.count("POST", "/v1/uploads") == 1)
        }
    }

    @Test func `a cancelled upload stops and keeps its parts`() async throws {
        let client = try client()
        let upload = Mutex<Task<BlobFacts, any Error>?>(nil)
        network.onPart { part in if part == 1 { upload.withLock { $0?.cancel() } } }
        let film = self.film
        let task = Task {
            // The task must be known before the first part is sent.
            try await eventually("the task is known") { upload.withLock { $0 != nil } }
            return try await client.upload(film)
        }
        upload.withLock { $0 = task }
        await #expect(throws: SanguineError.cancelled) { try await task.finished() }
        network.reset()
        _ = try await client.upload(film)
        #expect(network.offsets.first.map { $0 >= 2 << 20 } == true)
    }

    @Test func `a refused file is not sent again`() async throws {
        let client = try client()
        let text = RequestBody.data(Data(repeating: 65, count: 5_000_000))
        let error = await #expect(throws: SanguineError.self) { try await client.upload(text) }
        #expect(error?.asProblem?.code == .unsupportedMediaType)
        #expect(network.offsets == [0])
    }

    @Test func `an older server gets the file in one piece`() async throws {
        let client = try client()
        fixture.authority.server.fail("/v1/uploads", with: Problem(.notFound, "No such path."))
        let facts = try await client.upload(film)
        #expect(facts.type == "video/mp4")
        #expect(network.count("POST", "/v1/blobs") == 1)
    }

    @Test func `a file that changes during its upload is not sent in mixed parts`() async throws {
        try await ClientFixture.withFolder { folder in
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let url = folder.appending(path: "film.mp4")
            try Self.film.write(to: url)
            let client = try client()
            network.onPart { part in
                if part == 0 { try? Data(repeating: 1, count: 10).write(to: url) }
            }
            let error = await #expect(throws: SanguineError.self) {
                try await client.upload(.file(url, type: "video/mp4"))
            }
            #expect(error?.asProblem?.code == .malformedBody)
        }
    }
}

/// A network to an authority in memory that cuts off parts of uploads.
///
/// Mutable state: `state`, guarded by its mutex.
private final class PartNetwork: HTTPTransport {
    private struct State {
        var requests: [TransportRequest] = []
        var cut: (part: Int, isReceived: Bool, times: Int)?
        var onPart: @Sendable (Int) -> Void = { _ in }
    }

    private let server: InMemoryAuthority
    private let state = Mutex(State())

    init(_ server: InMemoryAuthority) { self.server = server }

    /// The offsets of the parts that were sent.
    var offsets: [Int] {
        state.withLock { state in
            state.requests.filter { $0.method == "PATCH" }
                .compactMap { $0.headers["Upload-Offset"].flatMap { Int($0) } }
        }
    }

    func count(_ method: String, _ path: String) -> Int {
        state.withLock { state in
            state.requests.count { $0.method == method && $0.url.path() == path }
        }
    }

    /// Cuts off the part with the number, from 0.
    func cut(part: Int, isReceived: Bool = false, times: Int = 1) {
        state.withLock { $0.cut = (part, isReceived, times) }
    }

    /// Calls the closure before each part is sent.
    func onPart(_ body: @escaping @Sendable (Int) -> Void) { state.withLock { $0.onPart = body } }

    func reset() { state.withLock { $0 = State() } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let offset = request.headers["Upload-Offset"].flatMap { Int($0) }
        let part = request.method == "PATCH" ? offset.map { $0 / (2 << 20) } : nil
        let (isReceived, onPart) = state.withLock { state in
            state.requests.append(request)
            guard let part, let cut = state.cut, cut.part == part, cut.times > 0 else {
                return (nil as Bool?, state.onPart)
            }
            state.cut?.times -= 1
            return (cut.isReceived, state.onPart)
        }
        if let part { onPart(part) }
        if Task.isCancelled { throw .cancelled }
        guard let isReceived else { return try await server.send(request) }
        if isReceived { _ = try await server.send(request) }
        throw .interrupted("a test's cut")
    }
}
