import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Files and forms as operations of the outbox: their progress and their failures.
@Suite("Uploads", .bounded)
struct UploadTests {
    /// Sends a file, raw or in a form.
    private struct SendFile: RemoteMutation {
        static let name = "file.send"
        let file: URL
        var isForm = false

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            let body = isForm ? RequestBody.multipart([.file("f", at: file)]) : .file(file)
            try await request.post("songs/a", body) { progress in
                Self.progressReports.withLock { $0[file, default: []].append(progress.fraction) }
            }
        }

        /// The progress reported to each file's closure.
        static let progressReports = WatchedState<[URL: [Double]]>([:])
    }

    private let fixture: SongFixture
    private let files = TemporaryFolder()
    private let file: URL

    init() throws {
        fixture = SongFixture(onDisk: true)
        file = files.url.appending(path: "photo.jpg")
        try FileManager.default.createDirectory(at: files.url, withIntermediateDirectories: true)
        try Data("four".utf8).write(to: file)
    }

    private func client(
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        try fixture.client {
            $0.mutations = [SendFile.self]
            change(&$0)
        }
    }

    private func outcome(of receipt: Receipt) async throws -> Receipt.Outcome {
        try await within(.seconds(30), "the outcome") { try await receipt.outcome }
    }

    /// The files being sent, without lock files.
    private var spooled: [String] {
        let root = fixture.folder?.url.appending(path: UploadSpool.name)
        let all = root.flatMap { try? FileManager.default.subpathsOfDirectory(atPath: $0.path) }
        return (all ?? []).filter { $0.contains("/") }
    }

    @Test func `an operation shows the progress of its upload`() async throws {
        let client = try client()
        defer { client.close() }
        fixture.network.hold(.requests)
        let receipt = try client.perform(SendFile(file: file))
        try await fixture.network.waitForHeld(1)
        fixture.network.advanceUploads(to: 0.5)

        #expect(client.outbox.pending.map(\.id) == [receipt.id])
        #expect(
            client.outbox.pending.first?.progress == UploadProgress(sentBytes: 2, totalBytes: 4)
        )
        fixture.network.release()
        #expect(try await outcome(of: receipt) == .applied)
        #expect(SendFile.progressReports.value[file] == [0, 0.5, 1])
        #expect(client.outbox.pending.allSatisfy { $0.progress == nil })
    }

    @MainActor
    @Test func `a view follows the progress, at most once per hundredth`() async throws {
        let client = try client()
        defer { client.close() }
        let model = client.outbox.model
        fixture.network.hold(.requests)
        try client.perform(SendFile(file: file))
        try await fixture.network.waitForHeld(1)
        for part in 0...10_000 { fixture.network.advanceUploads(to: Double(part) / 20_000) }
        try await eventually("the model follows") {
            model.sending.first?.progress?.fraction == 0.5
        }

        // So small a file has fewer bytes than hundredths.
        #expect(SendFile.progressReports.value[file] == [0, 0.25, 0.5])
        fixture.network.release()
    }

    @Test func `progress is reported in hundredths, however often the network reports`() {
        let progressReports = WatchedState<[UploadProgress]>([])
        let report = UploadReport { progress in progressReports.withLock { $0.append(progress) } }
        for sent in 0...100_000 {
            report.report(UploadProgress(sentBytes: Int64(sent), totalBytes: 100_000))
        }

        #expect(progressReports.value.count == 101)
        #expect(progressReports.value.last?.fraction == 1)
    }

    @Test func `the requests of one send are counted together`() {
        let progressReports = WatchedState<[UploadProgress]>([])
        let tally = UploadTally()
        tally.follow { progress in progressReports.withLock { $0.append(progress) } }
        tally.report(telling: nil).report(UploadProgress(sentBytes: 10, totalBytes: 10))
        let second = tally.report(telling: nil)
        second.report(UploadProgress(sentBytes: 0, totalBytes: 30))
        tally.end()
        second.report(UploadProgress(sentBytes: 30, totalBytes: 30))

        #expect(progressReports.value.map(\.sentBytes) == [10, 10])
        #expect(progressReports.value.map(\.totalBytes) == [10, 40])
    }

    @Test func `an upload starts over in the next process with the file's current content`()
        async throws
    {
        let first = try client()
        fixture.network.hold(.requests)
        let receipt = try first.perform(SendFile(file: file))
        try await fixture.network.waitForHeld(1)
        fixture.network.advanceUploads(to: 0.75)
        first.close()
        try await fixture.network.waitForCancelled(1)
        try Data("changed".utf8).write(to: file)
        let second = try client()
        defer { second.close() }
        try await fixture.network.waitForHeld(1)

        let operation = try #require(second.outbox.pending.first)
        #expect(operation.id == receipt.id)
        #expect(operation.progress == UploadProgress(sentBytes: 0, totalBytes: 7))
        fixture.network.release()
        try await second.settle()
        #expect(fixture.writes.map(\.body) == [Data("changed".utf8)])
    }

    @Test func `a form with files is always removed from disk`() async throws {
        let client = try client()
        defer { client.close() }
        fixture.server.fail(.status(500))
        fixture.server.fail(.status(400))
        fixture.network.hold(.requests)
        let receipt = try client.perform(SendFile(file: file, isForm: true))
        try await fixture.network.waitForHeld(1)
        #expect(spooled.count == 1)
        fixture.network.release()
        try await fixture.pass(untilWrites: 2)
        guard case .refused = try await outcome(of: receipt) else {
            Issue.record("It was not refused.")
            return
        }

        #expect(spooled.isEmpty)
        #expect(Set(fixture.writes.map(\.body)).count == 1)
    }

    @Test func `a sign-out removes a form in flight`() async throws {
        let client = try client()
        defer { client.close() }
        fixture.network.hold(.requests)
        try client.perform(SendFile(file: file, isForm: true))
        try await fixture.network.waitForHeld(1)
        #expect(spooled.count == 1)
        await client.signOut()

        try await eventually("the form is removed") { spooled.isEmpty }
    }

    @Test func `closing the client removes a form in flight`() async throws {
        let client = try client()
        fixture.network.hold(.requests)
        try client.perform(SendFile(file: file, isForm: true))
        try await fixture.network.waitForHeld(1)
        client.close()
        let folder = try #require(fixture.folder).url.appending(path: UploadSpool.name)

        #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test func `files of a dead process are removed when the next one starts`() throws {
        let folder = try #require(fixture.folder).url.appending(path: UploadSpool.name)
        let dead = folder.appending(path: "dead")
        try FileManager.default.createDirectory(at: dead, withIntermediateDirectories: true)
        try Data("private".utf8).write(to: dead.appending(path: "form"))
        try Data().write(to: folder.appending(path: "dead.lock"))
        let client = try client()
        defer { client.close() }

        #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).isEmpty)
    }

    @Test(arguments: [false, true])
    func `a file removed between two sends refuses the mutation`(isForm: Bool) async throws {
        let client = try client()
        defer { client.close() }
        fixture.server.fail(.status(503))
        let receipt = try client.perform(SendFile(file: file, isForm: isForm))
        try await fixture.network.waitForRequests(1)
        try FileManager.default.removeItem(at: file)
        try await eventually("the operation is in the tray") {
            fixture.delay.advance(by: .seconds(1))
            return !client.outbox.refused.isEmpty
        }

        let problem = try #require(client.outbox.refused.first?.problem)
        #expect(client.outbox.refused.map(\.id) == [receipt.id])
        #expect(problem.code == .malformedBody)
        #expect(problem.detail.contains("'photo.jpg'"))
        #expect(fixture.writes.count == 1)
    }

    @Test(arguments: [false, true])
    func `a refreshed token sends the same body again`(isForm: Bool) async throws {
        let tokens = OwnTokens()
        tokens.expire()
        let seen = WatchedState<[Int64?]>([])
        let client = try client { configuration in
            tokens.configure(&configuration)
            configuration.interceptors = [
                { request, next in
                    seen.withLock { $0.append(request.bodyFile?.readableFileSize) }
                    guard tokens.accepts(request) else {
                        _ = try await next(request)
                        return TransportResponse(status: 401)
                    }
                    return try await next(request)
                }
            ]
        }
        defer { client.close() }
        let receipt = try client.perform(SendFile(file: file, isForm: isForm))

        #expect(try await outcome(of: receipt) == .applied)
        #expect(tokens.refreshes == 1)
        #expect(fixture.writes.count == 2)
        #expect(Set(fixture.writes.map(\.body)).count == 1)
        #expect(seen.value.count == 2 && seen.value.allSatisfy { ($0 ?? 0) >= 4 })
        #expect(SendFile.progressReports.value[file] == [0, 1, 0, 1])
    }

    @Test func `a send continues as long as bytes are sent`() async throws {
        let client = try client()
        defer { client.close() }
        fixture.network.hold(.requests)
        let receipt = try client.perform(SendFile(file: file))
        try await fixture.network.waitForHeld(1)
        for part in 1...3 {
            try await eventually("the timeout of the next part has begun") {
                fixture.delay.timeToNextWake == RecordLimits.mutationTimeout
            }
            fixture.network.advanceUploads(to: Double(part) / 4)
            fixture.delay.advance(by: RecordLimits.mutationTimeout)
        }
        #expect(client.outbox.pending.first?.lastFailure == nil)
        #expect(fixture.network.cancelled == 0)
        try await eventually("the silence is noticed") {
            fixture.delay.advance(by: RecordLimits.mutationTimeout)
            return fixture.network.cancelled == 1
        }

        #expect(client.outbox.pending.map(\.id) == [receipt.id])
    }

    @Test func `a query can send a file too`() async throws {
        let client = try client()
        defer { client.close() }
        let file = file
        let query = ValueQuery<Song>("like-this", policy: .alwaysStale.retry(.never)) { request in
            try await request.post("songs/b", .multipart([.file("f", at: file)])) { progress in
                SendFile.progressReports.withLock {
                    $0[file, default: []].append(progress.fraction)
                }
            }
        }
        let raw = ValueQuery<Int>("raw", policy: .alwaysStale.retry(.never)) { request in
            try await request.response("songs/b", method: "PUT", body: .data(Data([1]))).status
        }

        #expect(try await client.value(of: query).id == "b")
        #expect(try await client.value(of: raw) == 200)
        #expect(SendFile.progressReports.value[file] == [0, 1])
        #expect(fixture.writes.map(\.method) == ["POST", "PUT"])
        #expect(fixture.writes.first?.headers["Content-Type"]?.hasPrefix("multipart/") == true)
        #expect(spooled.isEmpty)
    }
}
