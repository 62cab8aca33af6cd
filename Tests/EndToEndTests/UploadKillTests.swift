import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server during uploads and deletions of files, at moments that a seed
    /// chooses.
    ///
    /// `KILLS=100 SEED=7 swift test --filter UploadKillTests` plays 100 moments of another seed.
    @Suite("Uploads and kills", .bounded(.seconds(900)))
    struct UploadKillTests {
        private static let kills = environmentNumber("KILLS", or: 5)
        private static let seed: UInt64 = environmentNumber("SEED", or: 20_311)
        private static let uploaders = 3

        /// The files whose answers arrived.
        private struct Files: Sendable {
            var stored: Set<String> = []
            var deleted: Set<String> = []
            /// Files whose deletion was not answered: both outcomes are right.
            var uncertain: Set<String> = []

            mutating func add(_ other: Files) {
                stored.formUnion(other.stored)
                deleted.formUnion(other.deleted)
                uncertain.formUnion(other.uncertain)
            }
        }

        @Test func `kills during uploads lose no stored file and bring back no deleted one`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                var random = SplitMix64(seed: Self.seed)
                var files = Files()
                for kill in 1...Self.kills {
                    let answers = Int.random(in: 1...30, using: &random)
                    files.add(try await Self.play(data, kill: kill, after: answers))
                }
                #expect(files.stored.count > Self.kills, "SEED=\(Self.seed): too few uploads.")
                try await Self.check(files, data)
                let doctor = try await Tool.run("doctor", "--data", data.path)
                #expect(doctor.status == 0, "SEED=\(Self.seed): \(doctor.output)")
            }
        }

        /// Uploads until the server is killed.
        private static func play(
            _ data: URL,
            kill: Int,
            after answers: Int
        ) async throws -> Files {
            try await ServeProcess.with(data: data) { process in
                let server = KilledServer(process.api)
                let guest = try await process.api.guest()
                let killer = Task {
                    try await server.answers.reach(answers, "answers") { $0 }
                    server.kill()
                    process.tool.signal(SIGKILL)
                }
                defer { killer.cancel() }
                let played = try await concurrently(uploaders) { number in
                    try await upload(to: server, guest, from: kill * 1_000 + number * 300)
                }
                try await killer.finished()
                #expect(try await process.tool.ended().status == -SIGKILL)
                return played.reduce(into: Files()) { $0.add($1) }
            }
        }

        /// Uploads different files, and deletes every third, until the server does not answer.
        private static func upload(
            to server: KilledServer,
            _ guest: API.Guest,
            from first: Int
        ) async throws -> Files {
            var files = Files()
            for size in first..<first + 300 {
                let file = SampleFile.mp4.bytes(filler: 1_000 + size)
                guard let answer = try? await send(file, to: server.api, guest) else { break }
                #expect(answer.status == 201, "\(answer.text)")
                let id = try answer.decode(BlobFacts.self).id
                server.count()
                guard size % 3 == 0 else {
                    files.stored.insert(id)
                    continue
                }
                let path = "/v1/blobs/\(id)"
                guard let gone = try? await server.api.send(.DELETE, path, token: guest.token)
                else {
                    files.uncertain.insert(id)
                    break
                }
                #expect(gone.status == 204)
                files.deleted.insert(id)
                server.count()
            }
            #expect(server.isKilled, "The server stopped answering before the kill.")
            return files
        }

        private static func send(
            _ file: [UInt8],
            to api: API,
            _ guest: API.Guest
        ) async throws -> API.Answer {
            var request = HTTPClientRequest(url: api.base + "/v1/blobs")
            request.method = .POST
            request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
            request.body = .bytes(ByteBuffer(bytes: file))
            let response = try await api.http.execute(request, timeout: .patient(30))
            let body = try await response.body.collect(upTo: 1 << 20)
            return API.Answer(
                status: Int(response.status.code),
                headers: response.headers,
                body: Data(body.readableBytesView)
            )
        }

        /// Checks the files after the last restart.
        private static func check(_ files: Files, _ data: URL) async throws {
            try await ServeProcess.with(data: data) { process in
                let guest = try await process.api.guest()
                for id in files.stored {
                    let path = "/v1/blobs/\(id)"
                    let answer = try await process.api.send(.GET, path, token: guest.token)
                    #expect(answer.status == 200, "SEED=\(seed): \(id) is lost.")
                    let content = BlobID(of: Array(answer.body)).description
                    #expect(content == id, "SEED=\(seed): \(id) is damaged.")
                }
                for id in files.deleted {
                    let path = "/v1/blobs/\(id)"
                    let answer = try await process.api.send(.GET, path, token: guest.token)
                    #expect(answer.status == 404, "SEED=\(seed): \(id) is back.")
                }
                #expect(try await process.stop().status == 0)
            }
        }
    }
}
