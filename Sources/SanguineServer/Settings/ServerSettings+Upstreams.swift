extension ServerSettings {
    /// The names of the upstreams for functions that name none, in order.
    var upstreamOrder: [String] {
        (upstream.url == nil ? [] : [Upstream.name]) + upstream.fallbacks
    }

    /// The names of all upstreams, each with its model.
    var upstreamModels: [(upstream: String, model: String)] {
        (upstream.url == nil ? [] : [(Upstream.name, upstream.model)])
            + upstreams.map { ($0.name, $0.model) }
    }

    /// Returns the sampler for frames of videos; `nil` if no upstream needs frames.
    ///
    /// - Throws: ``FFmpegMissing``.
    func frameSampler() throws(FFmpegMissing) -> FrameSampler? {
        let frames = UpstreamConfiguration.Video.frames
        guard upstream.video == frames.rawValue || upstreams.contains(where: { $0.video == frames })
        else { return nil }
        #if os(macOS) || os(Linux)
        if let ffmpeg = FFmpeg(video.ffmpeg) {
            return FrameSampler(count: video.frames, sample: ffmpeg.pictures)
        }
        #endif
        throw FFmpegMissing(program: video.ffmpeg)
    }

    /// Returns all upstreams, that of `upstream.url` first.
    ///
    /// The others use its timeouts and limits.
    ///
    /// - Throws: ``UpstreamConfigurationError`` for values that ``validate()`` refuses.
    func upstreamConfigurations() throws(UpstreamConfigurationError) -> [(
        name: String, configuration: UpstreamConfiguration
    )] {
        var all: [(name: String, configuration: UpstreamConfiguration)] = []
        if let configuration = try upstream.configuration() {
            all.append((Upstream.name, configuration))
        }
        for other in upstreams {
            let configuration = try UpstreamConfiguration(
                url: other.url,
                apiKey: other.key,
                model: other.model,
                connectTimeout: upstream.connectTimeout,
                timeout: upstream.timeout,
                answerBytes: upstream.answerBytes,
                video: other.video,
                outputLimit: other.outputLimit,
                streamOptions: other.streamOptions
            )
            all.append((other.name, configuration))
        }
        return all
    }
}
