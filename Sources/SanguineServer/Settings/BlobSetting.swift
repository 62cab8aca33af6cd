import Foundation
import SanguineAuthority
import SanguineModel

/// The place of the bytes of files.
public struct BlobSetting: Hashable, Sendable {
    /// A store of files.
    public enum Store: String, CaseIterable, Hashable, Sendable {
        /// The folder `blobs` of the data folder.
        case folder
        /// A bucket of an S3 storage.
        case s3
    }

    /// The store, from ``Store``: `folder` or `s3`.
    ///
    /// Default: `folder`.
    public var store = Store.folder.rawValue
    /// The bucket of an S3 storage.
    public var s3 = S3Setting()

    /// Whether files are in a bucket.
    public var areInBucket: Bool { store == Store.s3.rawValue }
}

/// A bucket of an S3 storage: of Amazon, or of another one that implements its API.
public struct S3Setting: Hashable, Sendable {
    /// The URL of the storage.
    ///
    /// Default: `nil`, that of Amazon in ``region``.
    public var endpoint: String?
    /// The region, as signatures contain it.
    ///
    /// Default: `us-east-1`.
    public var region = "us-east-1"
    /// The bucket, which must exist.
    ///
    /// Default: `nil`; required if files are in a bucket.
    public var bucket: String?
    /// The beginning of the keys of all objects.
    ///
    /// Default: empty.
    public var prefix = ""
    /// The place of the bucket's name in URLs: `path`, or `host`.
    ///
    /// Default: `path`.
    public var addressing = S3Location.Addressing.path.rawValue
    /// The access key.
    ///
    /// Default: none; required unless ``credentialsFile`` is set.
    public var accessKey: Secret?
    /// The secret key.
    ///
    /// Default: none; required if ``accessKey`` is set.
    public var secretKey: Secret?
    /// The token of temporary keys.
    ///
    /// Default: none.
    public var sessionToken: Secret?
    /// The file with the keys, which only its owner may read, in the form of AWS's
    /// `credentials`.
    ///
    /// It is read again when the storage refuses the keys. Default: `nil`.
    public var credentialsFile: String?
    /// The maximum number of connections to the storage.
    ///
    /// Default: 64.
    public var connections = 64
    /// The time limit for a request with its repetitions, without the transfer of large files.
    ///
    /// Default: 30 s.
    public var timeout: Duration = .seconds(30)

    /// The effective URL of the storage.
    var effectiveEndpoint: String { endpoint ?? S3Location.amazon(region) }

    /// The bucket, if the settings are valid.
    var location: S3Location? {
        guard let bucket else { return nil }
        return S3Location(
            endpoint: effectiveEndpoint,
            bucket: bucket,
            prefix: prefix,
            addressing: S3Location.Addressing(rawValue: addressing) ?? .path
        )
    }

    /// Reads the keys.
    ///
    /// - Throws: ``SettingsError`` for a file that has none.
    func keys() throws(SettingsError) -> S3Keys {
        do throws(S3KeysError) {
            if let credentialsFile { return try S3Keys(file: credentialsFile) }
        } catch {
            throw SettingsError([.unusable(reason: error.description)])
        }
        return S3Keys(
            S3Credentials(
                accessKey: accessKey ?? Secret(""),
                secretKey: secretKey ?? Secret(""),
                sessionToken: sessionToken
            )
        )
    }
}

extension BlobSetting {
    /// Creates the store of files in the bucket; `nil` if they are in the data folder.
    ///
    /// - Throws: ``SettingsError`` for a file without keys.
    func bucketStore(
        clock: any WallClock,
        delay: any Clock<Duration>
    ) throws(SettingsError) -> S3BlobStore? {
        guard areInBucket, let location = s3.location else { return nil }
        let connections = S3Connections(limit: s3.connections)
        let client = S3Client(
            location: location,
            region: s3.region,
            keys: try s3.keys(),
            timeout: s3.timeout,
            clock: clock,
            delay: delay,
            send: connections.send
        )
        return S3BlobStore(client) { await connections.close() }
    }

    /// The members that are missing, or have no effect.
    var problems: [SettingsError.Problem] {
        let keys = [
            ("accessKey", s3.accessKey != nil), ("secretKey", s3.secretKey != nil),
            ("sessionToken", s3.sessionToken != nil),
        ]
        guard areInBucket else {
            let members =
                [
                    ("endpoint", s3.endpoint != nil), ("bucket", s3.bucket != nil),
                    ("prefix", !s3.prefix.isEmpty), ("credentialsFile", s3.credentialsFile != nil),
                ] + keys
            return members.filter(\.1).map { name, _ in
                refusal(of: name, allowed: "nothing, because 'blobs.store' is not s3")
            }
        }
        var problems: [SettingsError.Problem] = []
        if s3.bucket == nil {
            problems.append(
                refusal(of: "bucket", allowed: "the name of a bucket, because 'blobs.store' is s3")
            )
        }
        if s3.credentialsFile != nil {
            problems += keys.filter(\.1).map { name, _ in
                refusal(of: name, allowed: "nothing, because 'blobs.s3.credentialsFile' is set")
            }
        } else {
            problems += keys.prefix(2).filter { !$0.1 }.map { name, _ in
                refusal(of: name, allowed: "a key, unless 'blobs.s3.credentialsFile' names a file")
            }
        }
        let isInHost = s3.addressing == S3Location.Addressing.host.rawValue
        // A certificate for `*.s3.example.com` covers one label only.
        if isInHost, let bucket = s3.bucket,
            bucket.contains(where: { $0.isUppercase || $0 == "." || $0 == "_" })
        {
            problems.append(
                refusal(
                    of: "addressing",
                    value: s3.addressing,
                    allowed: "path, because the bucket's name is not a label of a host name"
                )
            )
        }
        return problems
    }

    private func refusal(
        of name: String,
        value: String = "",
        allowed: String
    ) -> SettingsError.Problem {
        .invalid(setting: "blobs.s3.\(name)", value: value, allowed: allowed, source: "settings")
    }
}

extension BlobSetting {
    /// The declarations of the settings.
    static let settings: [Setting] = [
        Setting(
            "blobs.store",
            .choice(\.blobs.store, of: BlobSetting.Store.allCases.map(\.rawValue)),
            "The place of uploaded files: the folder blobs in the data, or a bucket."
        ),
        Setting(
            "blobs.s3.endpoint",
            .optionalText(\.blobs.s3.endpoint),
            allowed: "an http or https URL with a host, without user name and query",
            isValid: { url in
                S3Location(endpoint: url, bucket: "b", prefix: "", addressing: .path) != nil
            },
            "The URL of the S3 storage. Default: that of Amazon in 'blobs.s3.region'."
        ),
        Setting(
            "blobs.s3.region",
            .text(\.blobs.s3.region, characters: 1...64),
            allowed: "1 to 64 letters, digits, - and _",
            isValid: ServerSettings.isListName,
            "The region of the bucket."
        ),
        Setting(
            "blobs.s3.bucket",
            .optionalText(\.blobs.s3.bucket),
            allowed: "3 to 63 letters, digits, ., - and _",
            isValid: S3Location.isBucket,
            "The bucket, which must exist; required with 'blobs.store' s3."
        ),
        Setting(
            "blobs.s3.prefix",
            .text(\.blobs.s3.prefix, characters: 0...256),
            allowed: "up to 256 characters, such as files/, without / at the beginning",
            isValid: S3Location.isPrefix,
            "The beginning of the keys of all objects, in a bucket with other objects."
        ),
        Setting(
            "blobs.s3.addressing",
            .choice(
                \.blobs.s3.addressing,
                of: S3Location.Addressing.allCases.map(\.rawValue)
            ),
            "Whether URLs have the bucket in the path, or in the host."
        ),
        Setting(
            "blobs.s3.accessKey",
            .secret(\.blobs.s3.accessKey),
            allowed: "visible ASCII characters, without spaces",
            isValid: S3Credentials.isKey,
            "The access key of the storage."
        ),
        Setting(
            "blobs.s3.secretKey",
            .secret(\.blobs.s3.secretKey),
            allowed: "visible ASCII characters, without spaces",
            isValid: S3Credentials.isKey,
            "The secret key of the storage."
        ),
        Setting(
            "blobs.s3.sessionToken",
            .secret(\.blobs.s3.sessionToken),
            allowed: "visible ASCII characters, without spaces",
            isValid: S3Credentials.isKey,
            "The session token of temporary keys."
        ),
        Setting(
            "blobs.s3.credentialsFile",
            .optionalText(\.blobs.s3.credentialsFile),
            allowed: "the path of a file that only its owner may read",
            "The keys in a file in the form of AWS's credentials, read again if they are refused."
        ),
        Setting(
            "blobs.s3.connections",
            .integer(\.blobs.s3.connections, 1...1_000),
            "The maximum number of connections to the storage; further requests wait."
        ),
        Setting(
            "blobs.s3.timeout",
            .duration(\.blobs.s3.timeout, .seconds(1) ... .seconds(600)),
            "The time for a request to the storage with its repetitions, but not large transfers."
        ),
    ]
}
