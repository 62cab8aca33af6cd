import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Requests to an S3 storage that refuses, fails, or does not answer.
@Suite("S3 client", .bounded)
struct S3ClientTests {
    private static let message = S3Message(.get, "GET", key: "files/x")
    private static let ok = S3Reply(status: 200, headers: ["etag": "\"1\""])

    /// Returns the failure of a request to a storage that answers all requests with the reply.
    private func failure(
        _ reply: S3Reply,
        action: S3Message = S3ClientTests.message
    ) async throws -> (failure: S3Failure?, reason: String, requests: Int) {
        let s3 = ScriptedS3 { _, _ in reply }
        let client = try s3.client()
        do throws(S3Failure) {
            _ = try await client.perform(action)
            return (nil, "", s3.requests.count)
        } catch {
            return (error, error.reason(at: client.location), s3.requests.count)
        }
    }

    @Test func `a request is signed with the time, the content and the token`() async throws {
        let s3 = ScriptedS3 { _, _ in Self.ok }
        let keys = S3Keys(
            S3Credentials(
                accessKey: Secret("A"),
                secretKey: Secret("B"),
                sessionToken: Secret("a/token+=")
            )
        )
        let moment = try #require(Timestamp("2026-11-21T19:18:39Z"))
        let client = try s3.client(keys: keys, clock: ManualWallClock(moment))
        var message = S3Message(.put, "PUT", key: "files/ä//x y")
        message.query = [("b", "1 2"), ("a", "")]
        message.body = [1]
        _ = try await client.perform(message)

        let sent = try #require(s3.requests.first)
        #expect(sent.url == "https://s3.example.com/photos/files/%C3%A4//x%20y?a=&b=1%202")
        #expect(sent.body == [1])
        #expect(sent.header("host") == "s3.example.com")
        #expect(sent.header("x-amz-date") == "20261121T191839Z")
        #expect(sent.header("x-amz-security-token") == "a/token+=")
        let authorization = try #require(sent.header("authorization"))
        #expect(authorization.contains("Credential=A/20261121/eu-1/s3/aws4_request,"))
        let names = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
        #expect(authorization.contains("SignedHeaders=\(names),"))
    }

    @Test(arguments: [
        S3Reply(status: 500), S3Reply(status: 502, body: Array("<html></html>".utf8)),
        S3Reply(status: 503), S3Reply(status: 504), S3Reply(status: 408), S3Reply(status: 429),
        ScriptedS3.refusal(503, "SlowDown"), ScriptedS3.refusal(500, "InternalError"),
        ScriptedS3.refusal(400, "RequestTimeout"), ScriptedS3.refusal(409, "OperationAborted"),
    ])
    func `a temporary refusal is followed by another attempt`(reply: S3Reply) async throws {
        let s3 = ScriptedS3 { _, number in number < S3Client.attempts ? reply : Self.ok }
        #expect(try await s3.client().perform(Self.message).status == 200)
        #expect(s3.requests.count == S3Client.attempts)
        #expect(try await failure(reply).requests == S3Client.attempts)
    }

    @Test(arguments: [
        ScriptedS3.refusal(403, "AccessDenied"), ScriptedS3.refusal(404, "NoSuchBucket"),
        ScriptedS3.refusal(400, "InvalidRequest"), S3Reply(status: 301), S3Reply(status: 501),
        ScriptedS3.refusal(507, "XMinioStorageFull"), ScriptedS3.refusal(403, "QuotaExceeded"),
    ])
    func `a lasting refusal is not repeated`(reply: S3Reply) async throws {
        let found = try await failure(reply)
        #expect(found.requests == 1)
        #expect(found.failure != nil)
    }

    @Test func `a lost connection is followed by another attempt`() async throws {
        struct Lost: Error {}
        let s3 = ScriptedS3 { _, number in
            guard number > 1 else { throw Lost() }
            return Self.ok
        }
        #expect(try await s3.client().perform(Self.message).status == 200)
        let never = ScriptedS3 { _, _ in throw Lost() }
        let client = try never.client()
        await #expect(throws: S3Failure.unreachable("Lost()")) {
            _ = try await client.perform(Self.message)
        }
        #expect(never.requests.count == S3Client.attempts)
    }

    @Test func `pauses grow, and are longer if the storage asks to slow down`() throws {
        let client = try ScriptedS3 { _, _ in Self.ok }.client(random: 1)
        func refused(_ reply: S3Reply) -> S3Failure {
            let key = Secret(ScriptedS3.accessKey)
            let now = Timestamp(millisecondsSince1970: 0)
            return .refused(S3Refusal(reply, to: .get, key: key, now: now))
        }
        let fault = refused(S3Reply(status: 500))
        let slow = refused(ScriptedS3.refusal(503, "SlowDown"))
        let times: [Duration?] = (1...3).map { client.pause(after: fault, $0) }
        #expect(times == [.milliseconds(200), .milliseconds(400), .milliseconds(800)])
        #expect(client.pause(after: slow, 2) == .seconds(2))
        let asked = refused(S3Reply(status: 503, headers: ["retry-after": "7"]))
        #expect(client.pause(after: asked, 1) == .seconds(7))
        let late = refused(S3Reply(status: 503, headers: ["retry-after": "3600"]))
        #expect(client.pause(after: late, 1) == nil)
    }

    @Test func `an overloaded storage is reported as such, with the pause`() async throws {
        let reply = S3Reply(status: 503, headers: ["retry-after": "42"])
        let found = try await failure(reply)
        #expect(found.requests == 1)
        let location = try ScriptedS3 { _, _ in Self.ok }.client().location
        #expect(found.failure?.storageError(at: location) == .overloaded(retryAfterSeconds: 42))
    }

    @Test func `a wrong clock is named with its difference`() async throws {
        let now = ManualWallClock().now()
        #expect(now == Timestamp("2026-11-21T12:00:00Z"))
        let date = ["date": "Sat, 21 Nov 2026 11:30:00 GMT"]
        let refused = try await failure(
            ScriptedS3.refusal(403, "RequestTimeTooSkewed", headers: date)
        )
        #expect(refused.reason.contains("1800 seconds ahead of that of the storage"))
        #expect(refused.requests == 1)
        // A response to `HEAD` has no code.
        let head = S3Message(.get, "HEAD", key: "files/x")
        let mute = try await failure(S3Reply(status: 403, headers: date), action: head)
        #expect(mute.reason.contains("1800 seconds ahead"))
    }

    @Test(arguments: [
        (ScriptedS3.refusal(404, "NoSuchBucket"), "create the bucket 'photos'"),
        (ScriptedS3.refusal(403, "InvalidAccessKeyId"), "check 'blobs.s3.accessKey'"),
        (ScriptedS3.refusal(403, "SignatureDoesNotMatch"), "check 'blobs.s3.secretKey'"),
        (ScriptedS3.refusal(403, "AccessDenied"), "allow s3:GetObject"),
        (ScriptedS3.refusal(400, "ExpiredToken"), "renew the keys"),
        (ScriptedS3.refusal(507, ""), "make room in the storage"),
        (
            ScriptedS3.refusal(
                400,
                "AuthorizationHeaderMalformed",
                more: "<Region>eu-nl-1</Region>"
            ),
            "set 'blobs.s3.region' to 'eu-nl-1'"
        ),
        (
            S3Reply(status: 301, headers: ["x-amz-bucket-region": "ap-2"]),
            "set 'blobs.s3.region' to 'ap-2'"
        ),
        (S3Reply(status: 302), "redirects are not followed"),
        (S3Reply(status: 404, body: Array("<html></html>".utf8)), "check 'blobs.s3.endpoint'"),
    ])
    func `a refusal names what to change`(reply: S3Reply, remedy: String) async throws {
        let found = try await failure(reply)
        #expect(found.reason.contains(remedy), "\(found.reason)")
        #expect(found.reason.contains("https://s3.example.com/photos"))
    }

    @Test func `a message contains no keys, and at most a few lines`() async throws {
        let long = String(repeating: "x\n", count: 5_000)
        let text = "The key \(ScriptedS3.accessKey) is unknown. \(long)"
        let found = try await failure(ScriptedS3.refusal(403, "AccessDenied", text))
        #expect(found.reason.contains("The key ••• is unknown."))
        #expect(!found.reason.contains("DO-NOT-TELL"))
        #expect(found.reason.count < 1_000)
    }

    @Test func `new keys in the file are read when the storage refuses the old ones`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "credentials")
            func write(_ key: String) throws {
                let text = "[default]\naws_access_key_id=\(key)\naws_secret_access_key=b\n"
                try Data(text.utf8).write(to: file)
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o600],
                    ofItemAtPath: file.path
                )
            }
            try write("old")
            let keys = try S3Keys(file: file.path)
            let s3 = ScriptedS3 { request, _ in
                request.header("authorization")?.contains("=new/") == true
                    ? Self.ok : ScriptedS3.refusal(400, "ExpiredToken")
            }
            let client = try s3.client(keys: keys)
            await #expect(throws: S3Failure.self) { _ = try await client.perform(Self.message) }
            #expect(s3.requests.count == 1)
            try write("new")
            #expect(try await client.perform(Self.message).status == 200)
            #expect(s3.requests.count == 3)
        }
    }

    @Test func `a file of keys that others may read, or without keys, is refused`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "credentials")
            #expect(throws: S3KeysError.noKeys(path: file.path)) {
                _ = try S3Keys(file: file.path)
            }
            let text =
                "aws_access_key_id = a\naws_secret_access_key = b=c\n[x]\naws_access_key_id=z"
            try Data(text.utf8).write(to: file)
            let open: [FileAttributeKey: Any] = [.posixPermissions: 0o644]
            try FileManager.default.setAttributes(open, ofItemAtPath: file.path)
            #expect(throws: S3KeysError.file(.readableByOthers(path: file.path, mode: 0o644))) {
                _ = try S3Keys(file: file.path)
            }
            let closed: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            try FileManager.default.setAttributes(closed, ofItemAtPath: file.path)
            let keys = try S3Keys(file: file.path).current
            #expect(keys.accessKey.reveal() == "a")
            #expect(keys.secretKey.reveal() == "b=c")
        }
    }

    @Test func `a storage that does not answer ends with the time limit`() async throws {
        let gate = ManualClock()
        let s3 = ScriptedS3 { _, _ in
            try await gate.sleep(for: .seconds(1))
            return Self.ok
        }
        let delay = ManualClock()
        let client = try s3.client(timeout: .seconds(30), delay: delay)
        let request = Task { () -> S3Failure? in
            do throws(S3Failure) {
                _ = try await client.perform(Self.message)
                return nil
            } catch {
                return error
            }
        }
        try await delay.waitForSleepers(1, dueIn: .seconds(30))
        delay.advance(by: .seconds(30))
        #expect(try await request.finished() == .timeout)
    }

    @Test func `a cancelled request ends at once`() async throws {
        let gate = ManualClock()
        let s3 = ScriptedS3 { _, _ in
            try await gate.sleep(for: .seconds(1))
            return Self.ok
        }
        let client = try s3.client(delay: ManualClock())
        let request = Task { () -> S3Failure? in
            do throws(S3Failure) {
                _ = try await client.perform(Self.message)
                return nil
            } catch {
                return error
            }
        }
        try await eventually("the request is sent") { s3.requests.count == 1 }
        request.cancel()
        #expect(try await request.finished() == .cancelled)
    }
}
