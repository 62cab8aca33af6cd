import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// The settings of the place of files.
@Suite("Settings of files", .bounded)
struct BlobSettingsTests {
    private func problems(_ change: (inout BlobSetting) -> Void) -> [String] {
        var settings = ServerSettings()
        change(&settings.blobs)
        do throws(SettingsError) {
            try settings.validate()
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    private func bucket(_ blobs: inout BlobSetting) {
        blobs.store = "s3"
        blobs.s3.bucket = "photos"
        blobs.s3.accessKey = Secret("a")
        blobs.s3.secretKey = Secret("b")
    }

    @Test func `a bucket needs its name and keys, or a file of keys`() {
        #expect(problems { bucket(&$0) } == [])
        let missing = problems { $0.store = "s3" }
        #expect(missing.count == 3)
        for name in ["bucket", "accessKey", "secretKey"] {
            #expect(missing.contains { $0.contains("'blobs.s3.\(name)'") }, "\(name)")
        }
        let file = problems {
            bucket(&$0)
            ($0.s3.accessKey, $0.s3.secretKey) = (nil, nil)
            $0.s3.credentialsFile = "keys"
        }
        #expect(file == [])
    }

    @Test func `settings without an effect are refused`() {
        let unused = problems {
            bucket(&$0)
            $0.store = "folder"
            $0.s3.endpoint = "https://s3.example.com"
            $0.s3.prefix = "x"
            $0.s3.sessionToken = Secret("t")
        }
        #expect(unused.count == 6)
        #expect(unused.allSatisfy { $0.contains("'blobs.store' is not s3") })
        let twice = problems {
            bucket(&$0)
            $0.s3.credentialsFile = "keys"
        }
        #expect(twice.count == 2)
        #expect(twice.allSatisfy { $0.contains("'blobs.s3.credentialsFile' is set") })
    }

    @Test(arguments: [
        ("blobs.store", "disk"), ("blobs.s3.endpoint", "s3.example.com"),
        ("blobs.s3.endpoint", "ftp://s3.example.com"), ("blobs.s3.endpoint", "https://a:b@c"),
        ("blobs.s3.endpoint", "https://c?d"), ("blobs.s3.region", ""),
        ("blobs.s3.region", "eu 1"), ("blobs.s3.bucket", "ab"), ("blobs.s3.bucket", "a/b/c"),
        ("blobs.s3.bucket", "-ab"), ("blobs.s3.bucket", "a..b"), ("blobs.s3.prefix", "/a"),
        ("blobs.s3.prefix", "a/../b"), ("blobs.s3.prefix", "a\nb"),
        ("blobs.s3.addressing", "virtual"), ("blobs.s3.secretKey", "a b"),
        ("blobs.s3.connections", "0"), ("blobs.s3.timeout", "0s"),
    ])
    func `an invalid value is refused`(key: String, value: String) throws {
        let setting = try #require(Setting.all.first { $0.key == key })
        var settings = ServerSettings()
        #expect(!setting.set(value, in: &settings))
    }

    @Test func `a bucket whose name is no label of a host name is addressed by the path`() {
        for name in ["my.photos", "my_photos", "Photos"] {
            let found = problems {
                bucket(&$0)
                $0.s3.bucket = name
                $0.s3.addressing = "host"
            }
            #expect(found.count == 1, "\(name)")
            #expect(found.first?.contains("'blobs.s3.addressing'") == true, "\(name)")
        }
    }

    @Test func `keys are masked, and are read from the environment`() throws {
        var settings = ServerSettings()
        bucket(&settings.blobs)
        settings.blobs.s3.secretKey = Secret("do-not-tell")
        let setting = try #require(Setting.all.first { $0.key == "blobs.s3.secretKey" })
        #expect(setting.environmentName == "SANGUINE_BLOBS_S3_SECRET_KEY")
        #expect(setting.isSecret)
        #expect(setting.text(in: settings) == Secret.mask)
        #expect(!"\(settings.blobs)".contains("do-not-tell"))
    }

    @Test func `without an endpoint, the storage is Amazon's in the region`() throws {
        var settings = ServerSettings()
        bucket(&settings.blobs)
        settings.blobs.s3.region = "eu-central-1"
        let location = try #require(settings.blobs.s3.location)
        #expect("\(location)" == "https://s3.eu-central-1.amazonaws.com/photos")
    }
}
