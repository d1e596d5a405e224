"""Mailsift beside listmonk: new subscribers are checked, bounces are told."""
