import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// A server with its files in a bucket.
@Suite("Server with a bucket", .bounded(.seconds(60)))
struct BucketServerTests {
    private func setup(
        _ change: (inout S3Setting) -> Void = { _ in }
    ) async throws -> LiveServer.Setup {
        let server = try await S3Server.access()
        var setup = LiveServer.Setup()
        setup.settings.blobs.store = "s3"
        setup.settings.blobs.s3.endpoint = server.endpoint
        setup.settings.blobs.s3.bucket = server.bucket
        setup.settings.blobs.s3.prefix = "server/\(UUID())"
        setup.settings.blobs.s3.accessKey = Secret(server.accessKey)
        setup.settings.blobs.s3.secretKey = Secret(server.secretKey)
        change(&setup.settings.blobs.s3)
        return setup
    }

    /// Returns the reason why a server does not start.
    private func refusal(_ setup: LiveServer.Setup) async throws -> String {
        do {
            try await LiveServer.with(setup) { _ in Issue.record("The server has started.") }
            return ""
        } catch let error as SettingsError {
            return error.description
        }
    }

    @Test(.requires(.s3Server)) func `uploaded files are in the bucket and nowhere else`()
        async throws
    {
        let setup = try await setup()
        let film = SampleFile.mp4.bytes()
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(film).decode(BlobFacts.self)
            let reply = try await guest.get("/v1/blobs/\(facts.id)")
            #expect(reply.status == 200)
            #expect(BlobID(of: reply.bytes).description == facts.id)
            let id = try #require(BlobID(facts.id))
            #expect(try await setup.storage.blobs.read(id, from: 0, count: 1) == nil)
        }
    }

    @Test(.requires(.s3Server)) func `a resumable upload ends as a file of the bucket`()
        async throws
    {
        let setup = try await setup()
        let film = SampleFile.mp4.bytes(filler: 2_500_000)
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let path = try await guest.begin(film.count)
            let first = try await guest.patch(path, Array(film.prefix(1_500_000)), at: 0)
            #expect(first["Upload-Offset"] == "1500000")
            let rest = Array(film.dropFirst(1_500_000))
            let id = try await guest.patch(path, rest, at: 1_500_000)["Sanguine-Blob"]
            #expect(try await guest.upload(film).decode(BlobFacts.self).id == id)
            #expect(try await guest.get("/v1/blobs/\(id ?? "")").status == 200)
        }
    }

    @Test(.requires(.s3Server)) func `a wrong bucket is reported at the start`() async throws {
        let reason = try await refusal(setup { $0.bucket = "no-such-bucket" })
        #expect(reason.contains("NoSuchBucket"))
        #expect(reason.contains("create the bucket 'no-such-bucket'"))
    }

    @Test(.requires(.s3Server)) func `an examination finds a usable bucket and wrong settings`()
        async throws
    {
        let settings = try await setup().settings.blobs
        guard case .usable(let bucket, let versioning)? = await BucketExamination(settings) else {
            Issue.record("The bucket is not usable.")
            return
        }
        #expect(try bucket.contains(#require(settings.s3.bucket)) && versioning == .off)
        var wrong = settings
        wrong.s3.secretKey = Secret("wrong")
        guard case .unusable(let reason)? = await BucketExamination(wrong) else {
            Issue.record("A wrong key was accepted.")
            return
        }
        #expect(reason.contains("check 'blobs.s3.secretKey'"))
        #expect(await BucketExamination(BlobSetting()) == nil)
    }

    @Test(.requires(.s3Server)) func `a wrong key is reported at the start`() async throws {
        let secret = try await refusal(setup { $0.secretKey = Secret("wrong") })
        #expect(secret.contains("check 'blobs.s3.secretKey'"))
        let access = try await refusal(setup { $0.accessKey = Secret("AKIAUNKNOWN") })
        #expect(access.contains("check 'blobs.s3.accessKey'"))
        #expect(!access.contains("AKIAUNKNOWN"))
    }

    @Test func `a storage that cannot be reached does not stop the server`() async throws {
        var setup = LiveServer.Setup()
        setup.settings.blobs.store = "s3"
        // A port below 1,024 on which nothing listens.
        setup.settings.blobs.s3.endpoint = "http://127.0.0.1:1"
        setup.settings.blobs.s3.bucket = "photos"
        setup.settings.blobs.s3.accessKey = Secret("a")
        setup.settings.blobs.s3.secretKey = Secret("b")
        let ready = setup
        try await setup.delay.advancing {
            try await LiveServer.with(ready) { server in
                let guest = try await server.guest()
                #expect(try await guest.get("/v1/account").status == 200)
                let upload = try await guest.upload(SampleFile.jpeg.bytes())
                #expect(upload.status == 500)
                #expect(upload.code == "internal_fault")
                // Another server could not reach the storage either.
                #expect(try await guest.get("/health/ready").status == 200)
            }
        }
    }
}
