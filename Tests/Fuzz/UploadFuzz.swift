import Foundation
import SanguineModel
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Uploads changed files to a server for some time, and loads a thumbnail of each stored image.
///
/// A refusal must have one of the documented codes.
struct UploadFuzz: Sendable {
    let server: FuzzedServer
    let tokens: [String]
    let seed: UInt64
    /// Names and contents of the real files.
    let files: [(name: String, bytes: [UInt8])]
    /// The number of uploads at once.
    let connections: Int

    /// The codes with which a file may be refused.
    private static let refusals = [
        "malformed_body": 400, "body_too_large": 413, "unsupported_media_type": 415,
        "invalid_content": 422, "storage_full": 422,
    ]

    /// Counts of outcomes, and the failures.
    struct Tally: Sendable, CustomStringConvertible {
        var counts: [String: Int] = [:]
        var failures: [String] = []

        mutating func add(_ outcome: String) { counts[outcome, default: 0] += 1 }

        var description: String {
            counts.sorted { $0.key < $1.key }.map { "\($0.key) × \($0.value)" }
                .joined(separator: ", ")
        }
    }

    /// The numbers and outcomes that the tasks share.
    private final class Board: Sendable {
        let tally = Mutex(Tally())
        /// The number of the next case.
        let next: Atomic<Int>

        init(_ first: Int) { next = Atomic(first) }
    }

    /// Reads the real files of a folder, in the order of their names.
    static func files(in folder: String) throws -> [(name: String, bytes: [UInt8])] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted().map { name in
            let url = URL(filePath: folder).appending(path: name)
            return (name, Array(try Data(contentsOf: url)))
        }
    }

    /// Uploads files until the time is over or the server dies.
    ///
    /// - Parameters:
    ///   - seconds: The duration.
    ///   - first: The number of the first case.
    /// - Returns: The outcomes.
    func run(seconds: Double, from first: Int = 0) async -> Tally {
        let end = ContinuousClock.now + .seconds(seconds)
        let board = Board(first)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<connections {
                group.addTask {
                    while ContinuousClock.now < end, server.isRunning {
                        let number = board.next.add(1, ordering: .relaxed).oldValue
                        let outcome = await play(number)
                        board.tally.withLock { tally in
                            tally.add(outcome.name)
                            guard let failure = outcome.failure, tally.failures.count < 100
                            else { return }
                            tally.failures.append("upload \(number): \(failure)")
                        }
                    }
                }
            }
        }
        return board.tally.withLock(\.self)
    }

    /// Uploads one file, and returns its name and the failure; `nil` if the server behaved as
    /// documented.
    func play(_ number: Int) async -> (name: String, failure: String?) {
        let file = UploadCase(number, seed: seed, from: files)
        let token = tokens[number % tokens.count]
        do {
            let (status, body) = try await request("POST", "/v1/blobs", token, file.bytes)
            guard status == 200 || status == 201 else {
                return refusal(status, body, of: file)
            }
            let facts = try JSONDecoder().decode(BlobFacts.self, from: body)
            guard !facts.type.hasPrefix("video/") else { return ("stored video", nil) }
            let path = "/v1/blobs/\(facts.id)"
            let (shown, thumbnail) = try await request("GET", path + "?w=32&h=32", token)
            guard shown == 200, !thumbnail.isEmpty else {
                return ("no thumbnail", "\(file.name): its thumbnail has the status \(shown)")
            }
            return ("stored image", nil)
        } catch {
            return ("failed", "\(file.name): \(error)")
        }
    }

    private func refusal(
        _ status: Int,
        _ body: Data,
        of file: UploadCase
    ) -> (name: String, failure: String?) {
        guard let problem = try? JSONDecoder().decode(Problem.self, from: body) else {
            return ("\(status)", "\(file.name): \(status) without a problem")
        }
        let code = problem.code.rawValue
        let isClear = Self.refusals[code] == status && problem.detail.count > 20
        return (code, isClear ? nil : "\(file.name): \(status) \(code), \(problem.detail)")
    }

    private func request(
        _ method: String,
        _ path: String,
        _ token: String,
        _ body: [UInt8]? = nil
    ) async throws -> (status: Int, body: Data) {
        var request = URLRequest(url: try server.url(path), timeoutInterval: 60)
        request.httpMethod = method
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.httpBody = body.map { Data($0) }
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, data)
    }
}
