class LLC: pass
