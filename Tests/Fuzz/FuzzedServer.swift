import Foundation
import SanguineModel

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The real server, in a process with a temporary folder.
final class FuzzedServer: Sendable {
    let port: Int
    private let process: Process
    private let folder: URL

    init(program: String) throws {
        folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-fuzz-\(ProcessInfo.processInfo.processIdentifier)")
        process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = ["serve", "--data", folder.path(), "--port", "0", "--admin-port", "0"]
        // The rate limits are high, because the cases test how the server handles requests.
        process.environment = ProcessInfo.processInfo.environment.merging([
            "SANGUINE_LIMITS_REQUESTS_PER_MINUTE": "60000000",
            "SANGUINE_LIMITS_ADDRESS_REQUESTS_PER_MINUTE": "60000000",
            "SANGUINE_LIMITS_ADDRESS_PROCESSOR_TIME": "600s",
            "SANGUINE_TOKENS_ACCESS_LIFETIME": "86400s",
            // Uploads of many hours fit on the disk.
            "SANGUINE_LIMITS_ACCOUNT_BYTES": "50000000",
            "SANGUINE_ACCOUNTS_GRANT": "1000000000",
            "SANGUINE_LOG_LEVEL": "critical",
            "SANGUINE_LOG_ACCESS": "false",
        ]) { $1 }
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        var text = ""
        while !text.contains("\n") {
            let bytes = output.fileHandleForReading.availableData
            guard !bytes.isEmpty else { throw Failed(reason: "it ended before it listened") }
            text += String(decoding: bytes, as: UTF8.self)
        }
        let line = text.split(separator: "\n").first { $0.hasPrefix("listening on ") }
        guard let port = line?.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw Failed(reason: "it says: \(text)")
        }
        self.port = port
    }

    var isRunning: Bool { process.isRunning }

    /// Creates guests and returns their access tokens.
    func signIn(_ count: Int) async throws -> [String] {
        var tokens: [String] = []
        for number in 0..<count {
            let guest = GuestRequest(
                deviceId: "a-fuzzing-device-\(number)",
                deviceSecret: String(repeating: "A", count: 43)
            )
            var request = URLRequest(url: try url("/v1/accounts/guest"))
            request.httpMethod = "POST"
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = try JSONEncoder().encode(guest)
            let (data, _) = try await URLSession.shared.data(for: request)
            let signedIn = try JSONDecoder().decode(SignedIn.self, from: data)
            tokens.append(signedIn.session.accessToken)
        }
        return tokens
    }

    /// Whether the server is live.
    func isLive() async throws -> Bool {
        let (_, response) = try await URLSession.shared.data(from: try url("/health/live"))
        return (response as? HTTPURLResponse)?.statusCode == 200
    }

    /// The server's resident memory, in megabytes.
    func residentMegabytes() throws -> Double { try megabytes("VmRSS:") }

    /// The server's peak resident memory, in megabytes.
    func peakMegabytes() throws -> Double { try megabytes("VmHWM:") }

    private func megabytes(_ name: String) throws -> Double {
        let status = try String(
            contentsOfFile: "/proc/\(process.processIdentifier)/status",
            encoding: .utf8
        )
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first
        guard let kilobytes, let number = Double(kilobytes) else {
            throw Failed(reason: "its memory cannot be read")
        }
        return number / 1_024
    }

    /// Stops the server and removes its folder.
    func end() {
        process.terminate()
        process.waitUntilExit()  // tidy: allow unbounded-wait: its own stop is bounded.
        try? FileManager.default.removeItem(at: folder)
    }

    func url(_ path: String) throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(port)\(path)") else {
            throw Failed(reason: "it has no address")
        }
        return url
    }

    private struct Failed: Error, CustomStringConvertible {
        let reason: String

        var description: String { "The server cannot be fuzzed: \(reason)" }
    }
}
