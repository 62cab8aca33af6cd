import Foundation

/// A self-signed certificate for `localhost` and 127.0.0.1 that is valid until 2126, with its key,
/// which protects nothing.
enum TestCertificate {
    case first, second

    /// The certificate in PEM.
    var pem: String { Self.pem("CERTIFICATE", self == .first ? Self.firstPEM : Self.secondPEM) }

    /// The private key in PEM.
    var keyPEM: String { Self.pem("PRIVATE KEY", self == .first ? Self.firstKey : Self.secondKey) }

    private static func pem(_ kind: String, _ content: String) -> String {
        "-----BEGIN \(kind)-----\n\(content)\n-----END \(kind)-----\n"
    }

    private static let firstPEM = """
        MIIBpzCCAU2gAwIBAgIUE9+kXyJCyQhHfAUEg6uS4Tl9T4UwCgYIKoZIzj0EAwIw
        GjEYMBYGA1UEAwwPZmlyc3QubG9jYWxob3N0MCAXDTI2MTEyNDA3MTUwMFoYDzIx
        MjYxMDMxMDcxNTAwWjAaMRgwFgYDVQQDDA9maXJzdC5sb2NhbGhvc3QwWTATBgcq
        hkjOPQIBBggqhkjOPQMBBwNCAATqHT7u8v6CcS96AR+rCPV1PAfmpcZLNNxbVauR
        UvrnEWoyhULpAXk7upm125md8RMuUZjRdBlFW8HTsOT7tO3Po28wbTAdBgNVHQ4E
        FgQUDVq11Jmv4uOUGuLqL7CfVZzR08YwHwYDVR0jBBgwFoAUDVq11Jmv4uOUGuLq
        L7CfVZzR08YwGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMA8GA1UdEwEB/wQF
        MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAMMdQrRi53qgwrirwcac6swrq9MQKFxE
        tzAYn5WMCbU4AiAxBKZQWEbF1sKHJYi7O/UwsOUQ8w1HZQgAeqN8l+53Yw==
        """
    private static let firstKey = """
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+ouSTR2H80GhJjvx
        QjMd8RQRUo61sR/zz60S5bMZN3qhRANCAATqHT7u8v6CcS96AR+rCPV1PAfmpcZL
        NNxbVauRUvrnEWoyhULpAXk7upm125md8RMuUZjRdBlFW8HTsOT7tO3P
        """
    private static let secondPEM = """
        MIIBqjCCAU+gAwIBAgIUc8WZgCvEufrIxiGYsFQtdp/VMJUwCgYIKoZIzj0EAwIw
        GzEZMBcGA1UEAwwQc2Vjb25kLmxvY2FsaG9zdDAgFw0yNjExMjQwNzE1MDBaGA8y
        MTI2MTAzMTA3MTUwMFowGzEZMBcGA1UEAwwQc2Vjb25kLmxvY2FsaG9zdDBZMBMG
        ByqGSM49AgEGCCqGSM49AwEHA0IABDCLbd+WH8Mzx05Xg/efsgIN85shs8ago6QC
        u7zgEhSOqJ2xatcmm7f1bAyuIuuQ1fTZOcRgAbe1VB3xZnmZY0qjbzBtMB0GA1Ud
        DgQWBBSG735jU8e5rFaeA7VqSzH5HMID2DAfBgNVHSMEGDAWgBSG735jU8e5rFae
        A7VqSzH5HMID2DAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwDwYDVR0TAQH/
        BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEA0u4oy7XQiKaEbFETo+vWL1rOHQ3u
        8NB0jU4/1nD1+7MCIQCy6c//ZoSngIK9Ng3gyQJICzfKbxX87YCc6yQcqO+/cg==
        """
    private static let secondKey = """
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgddXIpPfA8qat8yGs
        2HDTWLgy2CNJJhxhvQoIUTPTLkOhRANCAAQwi23flh/DM8dOV4P3n7ICDfObIbPG
        oKOkAru84BIUjqidsWrXJpu39WwMriLrkNX02TnEYAG3tVQd8WZ5mWNK
        """
}

/// The two files that a server reads, in a temporary folder.
struct CertificateFiles {
    let folder: URL

    var certificate: String { folder.appending(path: "certificate.pem").path }
    var key: String { folder.appending(path: "key.pem").path }

    static func with(_ body: (CertificateFiles) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = CertificateFiles(folder: folder)
        try files.write(.first)
        try await body(files)
    }

    func write(_ identity: TestCertificate, mode: Int = 0o600) throws {
        try write(certificate: identity.pem, key: identity.keyPEM, mode: mode)
    }

    func write(certificate text: String, key secret: String, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: URL(filePath: certificate))
        try Data(secret.utf8).write(to: URL(filePath: key))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: key)
    }
}
